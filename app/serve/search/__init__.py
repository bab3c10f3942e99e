"""Finds pending messages on all workers: by id at once, by a filter as a bounded scan in a process of its own."""
