"""Callers of the gateway: tokens, permissions, rate limits."""
