"""Tests in simulated time: waiting takes no time, and a pause of the machine makes no message late."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

from app.dev.testing.simulated_time import SimulatedLoop

#: The monotonic clock of a machine that has just been started shows less.
_UP_S = 86_400
_P = ParamSpec("_P")


def _loop() -> SimulatedLoop:
    loop = SimulatedLoop()
    loop.skip(_UP_S)
    return loop


def in_simulated_time(test: Callable[_P, Coroutine[Any, Any, None]]) -> Callable[_P, None]:
    """Run a test on an event loop that jumps to the next timer whenever no task is ready."""

    @functools.wraps(test)
    def run(*args: _P.args, **options: _P.kwargs) -> None:
        with asyncio.Runner(loop_factory=_loop) as runner:
            runner.run(test(*args, **options))

    return run
