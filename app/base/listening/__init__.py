"""Bounds that every HTTP server of ours has for its clients: connections, heads, bodies and time.

The worker's web port, the front of several processes and the gateway use it. It knows none of them: each passes a
`Refusals`, which says how that server answers and counts.
"""
