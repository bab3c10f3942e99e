"""The trace of a run: one line for each request and its answer, batches by their checksum."""

import zlib
from typing import Any


def exchange(worker: str, request: Any, answer: Any, hold_s: float) -> str:
    """Return a line with a worker's request and the answer."""
    said = {name: _shown(value) for name, value in sorted(vars(request).items())}
    found = f"held back for {hold_s:.4f} s" if callable(answer) else _shown(answer)
    return f"{worker} {type(request).__name__} {said} -> {found}"


def _shown(value: Any) -> Any:
    """Return a value with bytes as their length and checksum, and unordered collections sorted."""
    if isinstance(value, (bytes, bytearray)):
        return f"{len(value)}:{zlib.crc32(value):08x}"
    if isinstance(value, list):
        return sorted(map(_shown, value), key=repr)
    if isinstance(value, tuple):
        return tuple(map(_shown, value))
    return value
