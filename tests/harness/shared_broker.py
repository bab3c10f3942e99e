"""One broker for all processes of a test run: starting one takes as much CPU as fifty fast tests."""

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from app.dev.broker import broker_or_given


@contextmanager
def shared_broker(directory: Path) -> Iterator[str]:
    """Yield the bootstrap servers of the broker that all processes with the same directory share.

    The first process starts it. At its end it waits until no other process uses the broker, and then stops it. A
    process that comes later starts another one. If the first process dies, the broker ends with it.
    """
    address = directory / "bootstrap"
    with (directory / "broker.lock").open("a", encoding="utf-8") as lock, ExitStack() as started:
        fcntl.flock(lock, fcntl.LOCK_SH)
        while not address.exists():
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not address.exists():
                address.write_text(started.enter_context(broker_or_given()), "ascii")
                started.callback(address.unlink)
                started.callback(fcntl.flock, lock, fcntl.LOCK_EX)
            # Another process may hold the lock between the exclusive and the shared one: hence the loop.
            fcntl.flock(lock, fcntl.LOCK_SH)
        yield address.read_text("ascii")
