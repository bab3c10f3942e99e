"""Knows no messages: the clock, errors, HTTP out and in, the process and its tasks."""
