"""A worker's data directory: one process uses it at a time, and its member id and installation stay with it."""

import fcntl
import logging
import os
import shutil
import uuid
from pathlib import Path
from typing import IO

from app.base import topic_names
from app.base.errors import DataDirectoryForeign, DataDirectoryTaken, DataDirectoryUnusable

log = logging.getLogger(__name__)


def claim(path: Path) -> IO[bytes]:
    """Take a data directory for this process, making it if it is not there; it is free again when the process ends.

    Raises DataDirectoryTaken if another process has it: with the same member id, each would drive the other out of
    the group. Raises DataDirectoryUnusable if it cannot be written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = (path / "lock").open("ab")
    except OSError as error:
        raise DataDirectoryUnusable(path, error) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.close()
        raise DataDirectoryTaken(path) from error
    return lock


def check(path: Path, lock: IO[bytes]) -> None:
    """See that a data directory is still the one that was claimed.

    Raises DataDirectoryUnusable if it has been removed, or another stands in its place: what is written goes nowhere.
    """
    try:
        there = (path / "lock").stat().st_ino == os.fstat(lock.fileno()).st_ino
    except OSError as error:
        raise DataDirectoryUnusable(path, error) from error
    if not there:
        raise DataDirectoryUnusable(path, "another directory has replaced it while this worker was using it")


def member_id(path: Path) -> str:
    """Return the static member id that belongs to a data directory: a restart gets its partitions back at once.

    Raises DataDirectoryUnusable if there is none yet and none can be written.
    """
    return stored_value(path, "member-id", uuid.uuid4().hex)


def belongs(path: Path, app_id: str, cluster_id: str, changelog: str) -> None:
    """See that a data directory is this installation's, from its first use on, and has databases of `changelog`.

    Its databases stand at offsets of one changelog: with another's they would bring back what was delivered, and lose
    what was not.

    Raises DataDirectoryForeign if it is another installation's, or on another cluster.
    """
    ours = f"{app_id} on cluster {cluster_id}"
    theirs = stored_value(path, "installation", ours)
    if theirs != ours:
        raise DataDirectoryForeign(path, theirs, ours)
    _follow(path, app_id, changelog)


def _follow(path: Path, app_id: str, changelog: str) -> None:
    """Remove databases that follow another changelog, from before the number of partitions changed.

    Their offsets are another log's. Where nothing is said they follow the first one.
    """
    file = path / "changelog"
    try:
        followed = file.read_text("utf-8").strip() if file.exists() else topic_names.changelog(app_id, 0)
        if followed == changelog:
            return
        for database in path.rglob("delays-*.db"):
            shutil.rmtree(database)
        _write(file, changelog)
    except OSError as error:
        raise DataDirectoryUnusable(path, error) from error
    log.info(
        "the databases in %s were copies of %s. They are restored from %s instead",
        path,
        followed or "nothing",
        changelog,
    )


def _write(file: Path, value: str) -> None:
    """Write a file that appears whole: a full disk leaves an empty one."""
    new = file.with_name(f"{file.name}.new")
    new.write_text(value, "utf-8")
    new.replace(file)


def stored_value(path: Path, name: str, value: str) -> str:
    """Return what a file keeps; a new one keeps `value`.

    Raises DataDirectoryUnusable if it cannot be read, or not be written.
    """
    file = path / name
    try:
        if not file.exists() or not file.read_text("utf-8").strip():
            _write(file, value)
        return file.read_text("utf-8").strip()
    except OSError as error:
        raise DataDirectoryUnusable(path, error) from error
