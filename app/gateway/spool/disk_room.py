"""Whether the gateway's disk has room for what it is about to write: the spool and the keys ask the same."""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Final

_LOOK_EVERY_S: Final = 1.0
#: Stays free: RocksDB needs 64 MiB to open its databases again, and accepted messages have yet to be written.
FREE_BYTES: Final = 256 << 20
#: What a database needs beside its log when it is opened.
_SPARE: Final = 1 << 20


class DiskRoom:
    """Looks at a disk, once a second at most."""

    def __init__(self, path: Path) -> None:
        """Look at the disk of `path`."""
        self._path = path
        self._looked_s, self._enough = -_LOOK_EVERY_S, True

    def enough(self) -> bool:
        """Return whether the disk has room, as of a second ago at most."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._looked_s >= _LOOK_EVERY_S:
            self._looked_s = now_s
            disk = os.statvfs(self._path)
            self._enough = disk.f_bavail * disk.f_frsize > FREE_BYTES
        return self._enough

    def exhaust(self) -> None:
        """Take the disk to be full until the next look: a write has failed."""
        self._enough = False


def can_reopen(database: Path) -> bool:
    """Return whether the disk has the room that a RocksDB needs to be opened again after a write has failed."""
    needed = sum(log.stat().st_size for log in database.glob("*.log")) + _SPARE
    return shutil.disk_usage(database).free >= needed
