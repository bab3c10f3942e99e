"""The process of a worker: its data directory, its log, its background tasks, its end."""
