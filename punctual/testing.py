"""Test programs that use Punctual: on a simulated clock, without Kafka, in the test's own process.

The worker's distribution has the code, and the pytest fixture `delayed`. docs/how-to/test-your-code.md shows it.
"""

from typing import TYPE_CHECKING, Any

from punctual.installing import module_of_worker

if TYPE_CHECKING:
    from app.dev.testing import Delayed, Options, Pending, Post, Record

__all__ = ["Delayed", "Options", "Pending", "Post", "Record"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(module_of_worker("app.dev.testing", "punctual-kafka-worker"), name)
    msg = f"module 'punctual.testing' has no attribute {name!r}"
    raise AttributeError(msg)
