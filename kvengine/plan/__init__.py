"""Integers only: what the engine will do with its KV memory."""
