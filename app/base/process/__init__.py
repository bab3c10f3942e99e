"""The process that a worker is: its data directory, its log, its end."""
