"""What every HTTP server of ours grants its clients: connections, heads, bodies and time, each with a bound.

The worker's web port, the front of several processes and the gateway use it. It knows none of them: each passes a
`Refusals`, which says how that server answers and counts.
"""
