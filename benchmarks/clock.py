"""Time, as the benchmarks see it: epoch milliseconds, because brokers and due times speak them."""

import time
from collections.abc import Callable

from benchmarks.errors import TooSlow

_POLL_S = 0.02


def now_ms() -> int:
    """Return the present time in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def sleep_until(at_ms: int) -> None:
    """Return at `at_ms`, at once if that is past."""
    time.sleep(max(0.0, at_ms / 1000 - time.time()))


def wait_for(condition: Callable[[], bool], limit_s: float, what: str, poll_s: float = _POLL_S) -> int:
    """Return when `condition` holds, and return the time in epoch milliseconds.

    Raises TooSlow if it does not hold within `limit_s` seconds.
    """
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            msg = f"{what} did not happen within {limit_s:g} s. Run on a quiet machine, or look at the worker's log."
            raise TooSlow(msg)
        time.sleep(poll_s)
    return now_ms()
