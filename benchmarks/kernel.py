"""Whether the workers that are measured use the native extension, or Python alone."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from benchmarks.errors import KernelMissing

Kernel = Literal["on", "off"]
#: `require`: workers do not start without the native extension; `off`: they ignore it. Unset, they use it if they can.
VARIABLE = "PUNCTUAL_KERNEL"
_TOLD: dict[Kernel, str] = {"on": "require", "off": "off"}
_seen = set[Kernel]()


def note(said: Kernel) -> None:
    """Remember a measured worker's report.

    Raises KernelMissing if the variable demands the other, or workers differ.
    """
    _seen.add(said)
    asked = os.environ.get(VARIABLE)
    wanted = next((path for path, word in _TOLD.items() if word == asked), said)
    if _seen != {wanted}:
        raise KernelMissing(wanted, sorted(_seen))


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


def taken() -> Kernel | None:
    """Return which path the workers noted since the last call took; None without any."""
    path = next(iter(_seen), None)
    _seen.clear()
    return path
