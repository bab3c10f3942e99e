"""Refused requests of the gateway's callers."""
