"""Finds pending messages: by id at once, by a filter as a bounded scan in a process of its own, on all workers."""
