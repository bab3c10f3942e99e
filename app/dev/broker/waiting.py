"""Reports the progress of slow work now and then, so that it does not look stuck."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERY_S = 3.0

Say = Callable[[str], None]


def silently(_: str) -> None:
    """Ignore the progress."""


@contextmanager
def telling(say: Say, so_far: Callable[[float], str]) -> Iterator[None]:
    """Call `say` every few seconds until the block ends, with `so_far` of the seconds since its beginning."""
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
