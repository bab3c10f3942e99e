"""Says now and then how far something is that takes long, so that nobody takes it for stuck."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERY_S = 3.0

Say = Callable[[str], None]


def silently(_: str) -> None:
    """Say nothing."""


@contextmanager
def telling(say: Say, so_far: Callable[[float], str]) -> Iterator[None]:
    """Say what `so_far` returns, given the seconds since the beginning, every few seconds until the block ends."""
    began, over = time.monotonic(), threading.Event()

    def tell() -> None:
        while not over.wait(EVERY_S):
            say(so_far(time.monotonic() - began))

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
