"""Moves messages: reads requests, keeps pending messages, and delivers due ones.

A message passes these packages, in this order:

    faust_host  fetches records in chunks: Faust and aiokafka's consumer, with the parts that we replace
    partition   one partition at work: a single writer that gathers records and outcomes into steps
    ingest      turns requests into rows, applies commands to rows, and turns all other records into dead letters
    steps       the step, and the effects of commands and outcomes on messages; no I/O
    commit      makes a step durable: events, changelog, table; exactly once in a transaction
    due         finds due messages of all partitions, and measures lateness
    throttle    pauses and rate limits
    deliver     sends messages to topics, posts them to URLs, makes failure callbacks

The other packages:

    ownership   takes partitions from assignment to their first delivery, and gives them up at a rebalance
    reports     progress records, by which workers report to each other, to the console and to Prometheus
    topics      the topics of an installation: names, settings, numbers of partitions
    traces      spans for OpenTelemetry

    engine      starts and stops everything: `connections` first, then the parts in `assembly`, then their tasks
    housekeeping  the checks that a worker makes every second
    view        the state of a worker for the console and the API
    banner      the lines that a worker logs when it starts
"""
