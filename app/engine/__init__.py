"""Moves messages: reads requests, keeps pending messages, and delivers due ones.

A message passes these packages, in this order:

    faust_host  fetches records in chunks: Faust and aiokafka's consumer, and what of them is replaced
    partition   one partition at work: a single writer that gathers records and outcomes into steps
    ingest      what records mean: requests become rows, commands change them, the rest becomes dead letters
    steps       what changes together, and what commands and outcomes do to messages; no I/O
    commit      makes a step durable: events, changelog, table; exactly once in a transaction
    due         finds due messages of all partitions, and measures lateness
    throttle    pauses and rate limits
    deliver     sends messages to topics, posts them to URLs, makes failure callbacks

These are around them:

    ownership   what happens at a rebalance: a partition comes from assignment to its first delivery, or goes
    reports     progress records: what workers report to each other, to the console and to Prometheus
    topics      the topics of an installation: names, settings, numbers of partitions
    traces      spans for OpenTelemetry

    engine      starts and stops it all: `connections` first, then the parts in `assembly`, then their tasks
    housekeeping  what a worker checks every second
    view        what the console and the API ask of a worker
    banner      what a worker logs when it starts
"""
