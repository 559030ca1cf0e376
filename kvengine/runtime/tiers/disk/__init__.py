"""The disk tier: chunks of many keys in segments of one size, found again after a crash."""
