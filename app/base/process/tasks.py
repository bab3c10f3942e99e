"""Tasks that nobody waits for."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio


def telling(hear: Callable[[BaseException], object]) -> "Callable[[asyncio.Task[Any]], None]":
    """Return a done callback that calls `hear` with what a task has failed of; a cancellation is no failure."""

    def ended(task: "asyncio.Task[Any]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            hear(error)

    return ended
