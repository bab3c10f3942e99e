"""Punctual's worker: delayed messages for Kafka, on time.

A message passes through these packages, in this order:

    faust_host  Faust, and what of it is replaced: records come from the group's consumer in chunks
    ingest      what records mean: requests become rows, commands change them, nonsense becomes dead letters
    partition   one partition at work: a single writer that gathers records and outcomes into steps
    commit      a step becomes durable: events, then the changelog, then the table; exactly once in a transaction
    due         the due loop: finds the rows that are due across all partitions
    throttle    what operators pause and cap, and when a destination may get another message
    deliver     due messages go to their destinations; what became of them returns to the partition as an outcome
    http        HTTP out: which URLs and addresses may be reached, signatures, answers, room at hosts

These serve the others:

    steps       what changes together, and what orders and outcomes do to messages; no I/O
    ownership   which partitions this worker has, and how each comes from assignment to firing
    kafka       record batches, transactions and metadata on the wire
    reports     what workers tell each other and everyone: progress records
    web         the server, what guards it, the sums of all reports, metrics and health checks
    access      who may do what over HTTP: passwords, a provider, sessions, roles
    search      finds pending messages on all workers, by a process of its own
    acts        orders over HTTP and what comes of them, jobs on all that match a filter, the audit
    doctor      looks for what is wrong with an installation, for the command line
    repartition gives an installation more partitions, for the command line
    console     the pages
    gateway     takes messages over HTTP, also while Kafka is down: a process of its own
    traces      spans for OpenTelemetry; nothing of it is imported while it is off
    process     the data directory, the log, the end of a process

`engine` puts them together, `housekeeping` is what it does each second, and `worker` is the Faust app around it.
`embedded` is a broker for development, `demo` is what `make run` shows, `testing` puts the parts on a simulated clock
for tests of users. The table is the package `tables`; the message contract and the clients are `punctual`.
docs/explanation/how-it-works.md follows one request.

`app` is the Faust app, which `faust -A app worker` runs; programs use `from punctual import DelayClient`. Both are made
when they are asked for, so that a program that only sends requests doesn't load the engine.
"""

import gc
import importlib
from pathlib import Path
from typing import Any

#: A step's thousands of rows and headers are in no cycles, and gone when it is committed: looking through them each 700
#: objects, as Python does, took a twelfth of the CPU of ingest.
_RARELY = 50_000, 10, 10

__all__ = ["DelayClient", "SyncDelayClient", "app"]

#: Modules by the names that they had until 0.2.0: app/former/testing.py is `app.testing`, too.
__path__.append(str(Path(__file__).with_name("former")))


def __getattr__(name: str) -> Any:
    if name == "app":
        gc.disable()  # most of what is loaded stays: looking through it again and again takes a tenth of the start
        try:
            importlib.import_module("app.base.process.foreign_settings").drop()
            return importlib.import_module("app.worker").app
        finally:
            gc.freeze()
            gc.set_threshold(*_RARELY)
            gc.enable()
    if name in __all__:
        return getattr(importlib.import_module("punctual"), name)
    msg = f"module 'app' has no attribute {name!r}"
    raise AttributeError(msg)
