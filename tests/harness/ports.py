"""Ports that tests choose in advance, for servers that start later, and start again.

Each file of tests, of each suite on the machine, has ports of its own, and the kernel gives them to no connection by
itself: a worker that is killed finds its port as it left it, whatever else runs.
"""

import fcntl
import itertools
import os
import secrets
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from app.dev.broker.ports import is_free, server_ports

#: A worker's processes use the ports after its own (app/ops/multiprocess/plan.py).
ROOM = 16
_TRIES = 1_000


@cache
def _locks() -> int:
    """Return the open file in which each byte stands for a port: processes of all suites of a user lock their own."""
    path = Path(tempfile.gettempdir(), f"punctual-test-ports-{os.getuid()}")
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _lock(port: int) -> bool:
    """Lock a port; return False if another process has it."""
    try:
        fcntl.lockf(_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def _blocks() -> Iterator[int]:
    """Yield the first ports of all blocks, round and round, from anywhere on."""
    ports = server_ports()
    blocks = range(ports.start, ports.stop - ROOM, ROOM)
    begin = secrets.randbelow(len(blocks))
    return itertools.cycle([*blocks[begin:], *blocks[:begin]])


_NEXT = _blocks()
_taken = list[int]()


def free_port(*, kept: bool = False) -> int:
    """Return the first of ROOM free ports in a row, which no other process of a suite gets until `give_back`.

    If it is `kept`, no other process gets it until this one ends.
    """
    for first in itertools.islice(_NEXT, _TRIES):
        if all(is_free(port) for port in range(first, first + ROOM)) and _lock(first):
            if not kept:
                _taken.append(first)
            return first
    raise AssertionError(f"no {ROOM} ports in a row are free in {server_ports()}")


def give_back() -> None:
    """Let other processes have the ports that this one has taken: all suites share 1,400 blocks."""
    while _taken:
        fcntl.lockf(_locks(), fcntl.LOCK_UN, 1, _taken.pop())
