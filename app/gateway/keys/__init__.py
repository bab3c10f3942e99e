"""Idempotency keys: a repeated request gets the first response, from any gateway."""
