"""Reads bodies, refuses browsers on other sites, and redirects former paths."""
