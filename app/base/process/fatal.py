"""Failures: those of background tasks are reported, and a process that must not go on exits.

State and log must never diverge.
"""

import logging
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger(__name__)

FAILED = 1


def end_process(error: BaseException) -> NoReturn:
    """Exit this process at once and log why; its supervisor restarts it, and it recovers from the changelog.

    Every part is designed for crashes. Going on would be worse: a crashed Faust agent leaves its process idle.
    """
    from app.base.errors import PunctualError  # noqa: PLC0415 - keeps this module free of imports that could fail
    from tables import TableError  # noqa: PLC0415 - the same

    if isinstance(error, (PunctualError, TableError)):
        log.critical("punctual: %s", error)
        if not _log_is_seen():
            print(f"punctual: {error}", file=sys.__stderr__)
    else:
        log.critical("the worker exits: %r", error, exc_info=error)
    logging.shutdown()
    if sys.__stderr__ is not None:
        sys.__stderr__.flush()
    os._exit(FAILED)


def _log_is_seen() -> bool:
    """Return whether the log is written to stderr; `faust -f` writes it only to a file."""
    streams = [getattr(handler, "stream", None) for handler in logging.root.handlers]
    return sys.__stderr__ in streams or sys.stderr in streams


def telling(hear: Callable[[BaseException], object]) -> "Callable[[asyncio.Task[Any]], None]":
    """Return a done callback that passes a task's exception to `hear`; a cancelled task has not failed."""

    def ended(task: "asyncio.Task[Any]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            hear(error)

    return ended
