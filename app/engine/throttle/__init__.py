"""How much destinations get: pauses and rate limits that operators set, and when there is room for another message."""
