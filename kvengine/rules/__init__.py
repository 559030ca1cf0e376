"""Options, relations and releases as data; knows nothing of KV caches."""
