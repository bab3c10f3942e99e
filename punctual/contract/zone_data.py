"""The version of this machine's zone data: a digest that changes whenever a rule of a zone may have changed."""

import os
import zoneinfo
from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Final

#: Copies of all zones, without and with leap seconds, which messages cannot use.
_COPIES: Final = ("posix", "right")
_BYTES: Final = 16


@lru_cache(maxsize=1)
def zone_data() -> bytes:
    """Return the digest of all zone files, in the order of zoneinfo's search path. It takes some milliseconds."""
    digest = sha256(version("tzdata").encode())
    for place in zoneinfo.TZPATH:
        for path in _files(place):
            content = path.read_bytes()
            digest.update(f"{path} {len(content)} ".encode(errors="surrogateescape") + content)
    return digest.digest()[:_BYTES]


def _files(place: str) -> Iterator[Path]:
    for folder, folders, names in os.walk(place):
        folders[:] = sorted(name for name in folders if name not in _COPIES)
        yield from (
            path for name in sorted(names) if (path := Path(folder, name)).is_file() and os.access(path, os.R_OK)
        )
