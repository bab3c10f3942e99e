"""Idempotency keys: a request that comes again gets the answer that it had, from whichever gateway it asks."""
