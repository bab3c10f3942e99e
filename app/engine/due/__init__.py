"""Finds what is due, checks that inputs are still being read, and counts how late deliveries are."""
