"""Limits that every HTTP server of Punctual sets for its clients: connections, heads, bodies and time.

The worker's web port, the front of several processes and the gateway use it. It depends on no server: each passes a
`Refusals`, which defines how that server answers and counts.
"""
