"""Whether the workers that are measured use the native extension, or Python alone."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from benchmarks.errors import KernelMissing

Kernel = Literal["on", "off"]
#: `require`: workers do not start without the native extension; `off`: they ignore it. Unset, they use it if they can.
VARIABLE = "PUNCTUAL_KERNEL"
_VALUES: dict[Kernel, str] = {"on": "require", "off": "off"}
_reported = set[Kernel]()


def note(report: Kernel) -> None:
    """Remember whether a measured worker reports that it uses the native extension.

    Raises KernelMissing if the variable demands otherwise, or if the workers differ.
    """
    _reported.add(report)
    value = os.environ.get(VARIABLE)
    expected = next((path for path, word in _VALUES.items() if word == value), report)
    if _reported != {expected}:
        raise KernelMissing(expected, sorted(_reported))


@contextmanager
def require(path: Kernel | None) -> Iterator[None]:
    """Require a path of the workers that are started in the block; None leaves it to the environment."""
    value_before = os.environ.get(VARIABLE)
    if path is not None:
        os.environ[VARIABLE] = _VALUES[path]
    try:
        yield
    finally:
        if value_before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = value_before


def take_reported() -> Kernel | None:
    """Return the path that workers have reported since the last call, and forget it; None without a report."""
    path = next(iter(_reported), None)
    _reported.clear()
    return path
