"""The gateway: accepts messages over HTTP and writes them to Kafka as requests, or to a spool on disk while it is down.

A request passes these packages, in this order:

    api      the routes, the forms of a message, the responses
    desk     checks, defaults, origin and receipts
    spool    to Kafka at once, or in order through the disk

    middlewares  errors, former paths, the gate, idempotency keys
    command      `faust -A app gateway`
    gateway      puts the parts together, and stops them in order
    health       health checks and /metrics
    refusals     counts refused requests and closed connections
"""
