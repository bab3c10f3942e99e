"""The free disk space that a worker leaves: with less, it delivers, but accepts no requests."""

from typing import Final

#: RocksDB flushes its buffers to new files when it is opened again. With less space, a process that has filled its disk
#: could never start again.
LEAST: Final = 64 << 20
#: Enough for the buffers and compactions of a worker's databases, whatever the size of the disk.
MOST: Final = 1 << 30
_SHARE: Final = 20


def wanted_bytes(total: int) -> int:
    """Return the bytes that must be free on a disk of `total` bytes: a twentieth, between 64 MiB and 1 GiB."""
    return max(LEAST, min(MOST, total // _SHARE))
