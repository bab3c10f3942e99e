"""Ports that tests choose in advance, for servers that start later, and start again.

Each process of the suite has ports of its own, and the kernel gives them to no connection by itself: a worker that is
killed finds its port as it left it, whatever else runs.
"""

import itertools
import os
import secrets
from collections.abc import Iterator

from app.dev.broker.ports import is_free, server_ports

#: A worker's processes use the ports after its own (app/ops/multiprocess/plan.py).
ROOM = 16
_TRIES = 1_000


def _blocks() -> Iterator[int]:
    """Go round the first ports of the blocks of this process of the suite, from anywhere on."""
    ports, number = server_ports(), int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    processes = max(int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")), number + 1)
    own = range(ports.start, ports.stop - ROOM, ROOM)[number::processes]
    begin = secrets.randbelow(len(own))  # programs that tests run choose among the same
    return itertools.cycle([*own[begin:], *own[:begin]])


_NEXT = _blocks()


def free_port() -> int:
    """Return the first of ROOM free ports in a row; the suite does not use them again."""
    for first in itertools.islice(_NEXT, _TRIES):
        if all(is_free(port) for port in range(first, first + ROOM)):
            return first
    raise AssertionError(f"no {ROOM} ports in a row are free in {server_ports()}")
