"""Whether the workers that are measured take the compiled path, where there is one, or Python's alone."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from benchmarks.errors import KernelMissing

Kernel = Literal["on", "off"]
#: It tells workers not to start without the kernel, or not to use it. Without it they use what is there.
VARIABLE = "PUNCTUAL_KERNEL"
_TOLD: dict[Kernel, str] = {"on": "require", "off": "off"}
_seen = set[Kernel]()


def note(said: Kernel) -> None:
    """Remember what a worker that is measured says of itself."""
    _seen.add(said)


@contextmanager
def told(wanted: Kernel | None) -> Iterator[None]:
    """Have workers that are started in the block take this path; None leaves it to the environment."""
    before = os.environ.get(VARIABLE)
    if wanted is not None:
        os.environ[VARIABLE] = _TOLD[wanted]
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = before


def taken(wanted: Kernel | None) -> Kernel:
    """Return which path the workers noted since the last call took; without any, what was wanted, else "off".

    Raises KernelMissing if they took another one than was wanted, or not all the same.
    """
    seen = sorted(_seen)
    _seen.clear()
    if len(seen) > 1 or (seen and wanted not in (None, seen[0])):
        raise KernelMissing(wanted or "the same", seen)
    return seen[0] if seen else wanted or "off"
