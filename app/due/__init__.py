"""Finds what is due, looks that commands are still heard, and counts how late deliveries are."""
