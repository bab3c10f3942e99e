"""Ways in which a database that no process has open is damaged."""

import os
import random
from collections.abc import Callable
from pathlib import Path


def damage(database: Path, route: str, chosen: random.Random) -> None:
    """Damage a database in one of the WAYS; `chosen` says where."""
    pattern, act = WAYS[route]
    for file in database.glob(pattern):
        act(chosen, file)


def scratch(chosen: random.Random, file: Path) -> None:
    """Overwrite bytes at random places."""
    size = file.stat().st_size
    with file.open("r+b") as opened:
        for _ in range(1 + size // 4_000):
            opened.seek(chosen.randrange(size + 1))
            opened.write(chosen.randbytes(8))


def truncate(chosen: random.Random, file: Path) -> None:
    """Cut off the end."""
    os.truncate(file, chosen.randrange(file.stat().st_size + 1))


def remove(_: random.Random, file: Path) -> None:
    """Remove the file."""
    file.unlink()


#: Ordered so that each has files to damage: tables exist after a start that has replayed a write-ahead log.
WAYS: dict[str, tuple[str, Callable[[random.Random, Path], None]]] = {
    "scratched write-ahead logs": ("*.log", scratch),
    "scratched tables": ("*.sst", scratch),
    "truncated write-ahead logs": ("*.log", truncate),
    "truncated tables": ("*.sst", truncate),
    "truncated MANIFESTs": ("MANIFEST-*", truncate),
    "removed write-ahead logs": ("*.log", remove),
    "scratched MANIFESTs": ("MANIFEST-*", scratch),
    "scratched CURRENTs": ("CURRENT", scratch),
    "removed files": ("*", remove),
}
