"""Reads bodies, and redirects former paths."""
