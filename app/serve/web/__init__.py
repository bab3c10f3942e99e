"""Tells what is pending, on every worker's own web port: as JSON, as metrics, and health checks."""
