"""Finds pending messages on all workers: by ID at once, by a filter with a bounded scan in a separate process."""
