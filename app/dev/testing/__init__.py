"""Punctual in tests of programs that use it: on a simulated clock, without Kafka, in the test's own process.

The pytest plugin has the fixture `delayed`, in which the worker's own code decides which messages are due, refused or
replaced. docs/how-to/test-your-code.md shows it. The worker's modules are loaded when a test first uses the fixture.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.dev.testing.delayed import Delayed, Options
    from app.dev.testing.records import Pending, Post, Record

__all__ = ["Delayed", "Options", "Pending", "Post", "Record"]

_MODULES = {"Delayed": "delayed", "Options": "delayed", "Pending": "records", "Post": "records", "Record": "records"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"app.dev.testing.{_MODULES[name]}"), name)
    msg = f"module 'app.dev.testing' has no attribute {name!r}"
    raise AttributeError(msg)
