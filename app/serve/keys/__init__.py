"""Idempotency keys: a repeated request gets the first response, from any worker and gateway."""
