"""Limits on deliveries to destinations: pauses and rate limits that operators set, and the room for more messages."""
