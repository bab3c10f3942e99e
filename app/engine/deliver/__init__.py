"""Sends due messages to their destinations, and makes failure callbacks."""
