"""Punctual's worker: delayed messages for Kafka, on time.

A message passes these rooms, in this order:

    gateway     a process of its own: accepts messages over HTTP and writes them to Kafka as requests
    worker.py   the Faust app, which `faust -A app worker` runs
    engine      reads requests, keeps pending messages, delivers due ones
    kafka       record batches, transactions and metadata on the wire; the fast path of plain messages

These are around them:

    serve       the HTTP API, the console, search, dead letters, actions, permissions
    ops         commands for operators: doctor, repartition, several processes
    dev         for developers: a broker, the demo, tests on a simulated clock, former names of modules
    settings    every setting, read from the environment
    base        the clock, errors, HTTP, the process; knows no messages

The table is the package `tables`; the message contract and the clients are `punctual`.
docs/explanation/how-it-works.md follows one message through the files.

`app` is the Faust app; programs use `from punctual import DelayClient`. Both are created on first use, so that a
program that only sends requests does not load the engine.
"""

import gc
import importlib
from pathlib import Path
from typing import Any

#: A step's thousands of rows and headers are in no cycles, and gone when it is committed: looking through them each 700
#: objects, as Python does, took a twelfth of the CPU of ingest.
_RARELY = 50_000, 10, 10

__all__ = ["DelayClient", "SyncDelayClient", "app"]

#: Modules by the names that they had until 0.2.0: app/dev/former/testing.py is `app.testing`, too.
__path__.append(str(Path(__file__).parent / "dev" / "former"))


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
