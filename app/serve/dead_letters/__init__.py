"""Finds dead letters for the API and the console, newest first. Every worker can, because it needs only Kafka.

app/serve/access/permissions.py has the role that may see them. `routes` shows users of single namespaces only the dead
letters of their namespaces, and values only to roles that may read payloads.
"""
