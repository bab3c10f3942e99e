"""Reads the state of this machine: the data directory, its disk, and the process's limits. Writes nothing."""

import os
import platform
import re
import resource
import shutil
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from app.ops.doctor.facts import MachineFacts

_LOCKS, _MOUNTS = Path("/proc/locks"), Path("/proc/self/mountinfo")
#: Libraries whose internals the worker changes, so that only the releases it was written for are known to work.
_BENT = ("faust-streaming", "mode-streaming", "aiokafka", "rocksdict")


def look(data_path: Path) -> MachineFacts:
    """Return the facts about this machine, and about a data directory on it."""
    place = data_path.absolute()
    nearest = next((path for path in (place, *place.parents) if path.exists()), Path("/"))
    error = ""
    if not nearest.is_dir():
        error = f"{nearest} is not a directory"
    elif not os.access(nearest, os.W_OK | os.X_OK):
        error = f"{nearest} cannot be written by this user"
    disk = shutil.disk_usage(nearest)
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MachineFacts(
        data_path=str(place),
        there=nearest == place,
        error=error,
        user=user_of(place / "lock"),
        filesystem=filesystem(nearest),
        free=disk.free,
        total=disk.total,
        open_files=-1 if limit == resource.RLIM_INFINITY else limit,
        python=platform.python_version(),
        libraries=libraries(),
    )


def user_of(lock: Path, locks: Path = _LOCKS) -> int | None:
    """Return the process that has locked a file, 0 if none has; None where the system does not report it.

    Trying to take the lock would keep a worker from starting at the same moment.
    """
    try:
        held = locks.read_text("utf-8").splitlines()
        inode = lock.stat().st_ino
    except FileNotFoundError as error:
        return 0 if error.filename == str(lock) else None
    except OSError:
        return None
    for line in held:
        match = re.match(rf"\d+: FLOCK +ADVISORY +WRITE (-?\d+) \S+:\S+:{inode} ", line)
        if match:
            return int(match[1])
    return 0


def filesystem(path: Path, mounts: Path = _MOUNTS) -> str:
    """Return the type of a path's filesystem, such as ext4; empty where the system does not report it."""
    try:
        lines = mounts.read_text("utf-8").splitlines()
    except OSError:
        return ""
    best = ("", "")
    for line in lines:
        before, _, after = line.partition(" - ")
        where, kind = before.split()[4].replace("\\040", " "), after.split()[0]
        if path.is_relative_to(where) and len(where) >= len(best[0]):
            best = (where, kind)
    return best[1]


def libraries() -> dict[str, tuple[str, str]]:
    """Return the installed release of each library with a required range, and that range."""
    try:
        requirements = requires("punctual-kafka-worker") or []
    except PackageNotFoundError:
        return {}
    versions = {}
    for line in requirements:
        parts = re.fullmatch(r"([\w-]+)(?:\[.*?\])?(.*)", line.partition(";")[0].strip())
        if parts is not None and parts[1] in _BENT:
            versions[parts[1]] = (version(parts[1]), parts[2])
    return versions
