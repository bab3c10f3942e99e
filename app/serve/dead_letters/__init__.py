"""Dead letters for the API and the console: found by a filter, newest first, by any worker, from Kafka alone.

Who may see them: the role is in app/serve/access/permissions.py, and `routes` shows users of single namespaces only
dead letters of their own, and values only to roles that may read payloads.
"""
