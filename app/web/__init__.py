"""Shows what is pending, on every worker's own web port: a page, the same as JSON, and health checks."""
