"""Ports that tests choose in advance, for servers that start later, and start again.

Each process of each suite on the machine has ports of its own, and the kernel gives them to no connection by itself: a
worker that is killed finds its port as it left it, whatever else runs.
"""

import fcntl
import itertools
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

from app.dev.broker.ports import is_free, server_ports

#: A worker's processes use the ports after its own (app/ops/multiprocess/plan.py).
ROOM = 16
_TRIES = 1_000
#: More processes of suites than these share ports.
_SHARES = 32


def _lock(share: int) -> bool:
    """Lock a share of the ports until this process ends; return False if another process has it."""
    path = Path(tempfile.gettempdir(), f"punctual-test-ports-{os.getuid()}-{share}.lock")
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return False
    return True


def _blocks() -> Iterator[int]:
    """Yield the first ports of the blocks of a share that no other process has, round and round."""
    share, ports = next(filter(_lock, range(_SHARES)), secrets.randbelow(_SHARES)), server_ports()
    yield from itertools.cycle(range(ports.start, ports.stop - ROOM, ROOM)[share::_SHARES])


_NEXT = _blocks()


def free_port() -> int:
    """Return the first of ROOM free ports in a row; the suite does not use them again."""
    for first in itertools.islice(_NEXT, _TRIES):
        if all(is_free(port) for port in range(first, first + ROOM)):
            return first
    raise AssertionError(f"no {ROOM} ports in a row are free in {server_ports()}")
