"""Tiers behind host memory: local disk and a shared store. None of this imports torch."""
