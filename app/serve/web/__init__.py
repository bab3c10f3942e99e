"""The web port of every worker: its server, what guards it, health checks, metrics, and the overview as JSON."""
