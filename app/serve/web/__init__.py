"""The web port of every worker: its server, its guards, health checks, metrics, and the overview as JSON."""
