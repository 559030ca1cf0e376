"""The shared store: a Valkey or Redis server, Sentinel or Cluster, through the client ``redis``."""
