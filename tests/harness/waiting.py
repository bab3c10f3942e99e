"""Waiting for something that another task, thread, process or machine brings about, for as long as that may take."""

import asyncio
import os
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import TypeVar
from urllib.error import HTTPError

#: Whatever a test waits for may take as long as that on a slow machine. It costs time only where a test fails.
LIMIT_S = 60.0
#: Maximum run time of a program that a test runs to its end.
PROGRAM_S = 10 * LIMIT_S
#: How often a condition is checked: less often, the longer it takes, because each check costs CPU.
_POLL_S, _POLL_SHARE = 0.02, 0.05
#: How often a condition in this process is checked.
_HERE_S = 0.002
#: Maximum crowd: a slower machine is not fit for tests.
_CROWD = 6.0
_T = TypeVar("_T")


def eventually(condition: Callable[[], object], seconds: float = LIMIT_S, what: str = "it") -> float:
    """Wait until `condition` holds and return the seconds that took; fail if it does not hold within the limit.

    The limit is LIMIT_S, or `seconds` if they are more, times how crowded the machine is. A test of how soon something
    happens asserts the returned seconds. A worker that answers 503 does not know yet, and is asked again.
    """
    limit_s, began = max(seconds, LIMIT_S), time.monotonic()
    while not _holds(condition):
        waited = time.monotonic() - began
        assert waited < limit_s * crowd(), f"{what} did not happen within {waited:.0f} s"
        time.sleep(max(_POLL_S, waited * _POLL_SHARE))
    return time.monotonic() - began


def _holds(condition: Callable[[], object]) -> bool:
    try:
        return bool(condition())
    except HTTPError as error:
        if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
            raise
        return False


def ask_until(
    ask: Callable[[], _T],
    fits: Callable[[_T], object],
    what: str = "the wanted answer",
    show: Callable[[_T], object] = lambda answer: answer,
    seconds: float = LIMIT_S,
) -> _T:
    """Call `ask` until its result fits, and return that result; fail with what `show` makes of the last result."""
    last: list[_T] = []

    def answered() -> bool:
        last[:] = [ask()]
        return bool(fits(last[0]))

    try:
        eventually(answered, seconds, what)
    except AssertionError as error:
        error.add_note(f"Last seen: {[show(answer) for answer in last]}")
        raise
    return last[0]


async def until(condition: Callable[[], object]) -> None:
    """Wait until `condition` holds, while the tasks of this process go on; fail if it does not within the limit."""
    async with asyncio.timeout(LIMIT_S):
        while not condition():  # noqa: ASYNC110 - the code that brings it about knows no events of tests
            await asyncio.sleep(_HERE_S)


def crowd() -> float:
    """Return how many processes have wanted each core in the last minute, from 1 to _CROWD."""
    return min(max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)), _CROWD)
