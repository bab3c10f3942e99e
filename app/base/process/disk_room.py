"""Checks whether the disk of a server has room for a gateway's spool and for idempotency keys."""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Final

_LOOK_EVERY_S: Final = 1.0
#: The bytes that stay free: RocksDB needs 64 MiB to open a database again, and accepted messages must be written.
FREE_BYTES: Final = 256 << 20
#: The bytes that a database needs in addition to its log when it is opened.
_SPARE: Final = 1 << 20


class DiskRoom:
    """Measures the free space of a disk, at most once a second."""

    def __init__(self, path: Path) -> None:
        """Measure the disk that has `path`."""
        self._path = path
        self._looked_s, self._enough = -_LOOK_EVERY_S, True

    def enough(self) -> bool:
        """Return whether the disk had room at most a second ago."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._looked_s >= _LOOK_EVERY_S:
            self._looked_s = now_s
            disk = os.statvfs(self._path)
            self._enough = disk.f_bavail * disk.f_frsize > FREE_BYTES
        return self._enough

    def exhaust(self) -> None:
        """Treat the disk as full until the next measurement, because a write has failed."""
        self._enough = False


def can_reopen(database: Path) -> bool:
    """Return whether the disk has room to open a RocksDB database again after a failed write."""
    needed = sum(log.stat().st_size for log in database.glob("*.log")) + _SPARE
    return shutil.disk_usage(database).free >= needed
