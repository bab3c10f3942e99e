"""Punctual: delayed messages for Kafka, on time.

`app` is the Faust app, which `faust -A app worker` runs; programs use `from punctual import DelayClient`. Both are made
when they are asked for, so that a program that only sends requests doesn't load the engine.
"""

import gc
import importlib
from typing import Any

#: A step's thousands of rows and headers are in no cycles, and gone when it is committed: looking through them each 700
#: objects, as Python does, took a twelfth of the CPU of ingest.
_RARELY = 50_000, 10, 10

__all__ = ["DelayClient", "SyncDelayClient", "app"]


def __getattr__(name: str) -> Any:
    if name == "app":
        gc.disable()  # most of what is loaded stays: looking through it again and again takes a tenth of the start
        try:
            return importlib.import_module("app.worker").app
        finally:
            gc.freeze()
            gc.set_threshold(*_RARELY)
            gc.enable()
    if name in __all__:
        return getattr(importlib.import_module("punctual.client"), name)
    msg = f"module 'app' has no attribute {name!r}"
    raise AttributeError(msg)
