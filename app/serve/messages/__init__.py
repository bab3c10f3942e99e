"""Messages and commands in HTTP requests: their forms, checks and outcomes; workers and gateways share them."""
