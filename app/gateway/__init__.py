"""The gateway: accepts messages over HTTP and writes them to Kafka as requests, or to a spool on disk while it is down.

A request passes these modules, in this order:

    middlewares  errors, former paths, the gate, idempotency keys; counts refused requests
    routes       the routes of workers, and the document
    desk         checks messages (`admission`), and waits for `outcomes` of commands
    workers      answers reads by asking workers
    spool        to Kafka at once, or in order through the disk

    command      `faust -A app gateway`
    gateway      puts the parts together, and stops them in order
    health       health checks and /metrics
"""
