"""Who calls the gateway: tokens, permissions, rate limits."""
