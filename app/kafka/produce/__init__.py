"""Sends record batches, at least once, so that no partition waits for another."""
