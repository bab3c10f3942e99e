"""Zone files with rules of a test's own, before those of the machine."""

import struct
import zoneinfo
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from zoneinfo import ZoneInfo

from punctual.contract import zones
from punctual.contract.zone_data import zone_data


def write_zone(folder: Path, zone: str, rules: str) -> None:
    """Write the file of a zone that goes by a POSIX TZ string, such as `<+01>-1`, at all times."""
    block = b"TZif2" + bytes(15) + struct.pack(">6l", 0, 0, 0, 0, 1, 4) + struct.pack(">lbb", 0, 0, 0) + b"UTC\0"
    path = folder / zone
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(block + block + b"\n" + rules.encode() + b"\n")


@contextmanager
def zones_in(folder: Path) -> Iterator[Callable[[str, str], None]]:
    """Have zones looked for in a folder first; yields what gives a zone other rules, as a restart with them would."""

    def give(zone: str, rules: str) -> None:
        write_zone(folder, zone, rules)
        _forget()

    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath([str(folder), *before])
    _forget()
    try:
        yield give
    finally:
        zoneinfo.reset_tzpath(before)
        _forget()


def _forget() -> None:
    ZoneInfo.clear_cache()
    zones._stretches.cache_clear()
    zone_data.cache_clear()
