"""A terminal that a command writes to, and its output."""

import os


def shown_at(terminal: int) -> str:
    """Return all that was written to a terminal whose other end is closed, and close this one."""
    parts: list[bytes] = []
    with os.fdopen(terminal, "rb", buffering=0) as reading:
        try:
            while part := reading.read(10_000):
                parts.append(part)
        except OSError:  # Linux reports the end like this
            pass
    return b"".join(parts).decode()
