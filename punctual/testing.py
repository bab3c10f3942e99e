"""Tests of programs that use Punctual: on a simulated clock, without Kafka, in the test's own process.

The worker's distribution has the code, and the pytest fixture `delayed`. docs/how-to/test-your-code.md shows it.
"""

from typing import Any

from punctual.installing import module_of_worker

_NAMES = {"Delayed", "Options", "Pending", "Post", "Record"}


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(module_of_worker("app.dev.testing", "punctual-kafka-worker"), name)
    msg = f"module 'punctual.testing' has no attribute {name!r}"
    raise AttributeError(msg)
