"""A worker's data directory: used by one process at a time, with a fixed member id and installation."""

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
    """Lock a data directory for this process, creating it if needed; the lock ends with the process.

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
    """Check that a data directory is still the claimed one.

    Raises DataDirectoryUnusable if it was removed or replaced: files written to it would be lost.
    """
    try:
        there = (path / "lock").stat().st_ino == os.fstat(lock.fileno()).st_ino
    except OSError as error:
        raise DataDirectoryUnusable(path, error) from error
    if not there:
        raise DataDirectoryUnusable(path, "another directory has replaced it while this worker was using it")


def member_id(path: Path) -> str:
    """Return the static member id of a data directory, with which a restarted worker gets its partitions back at once.

    Raises DataDirectoryUnusable if there is none yet and none can be written.
    """
    return stored_value(path, "member-id", uuid.uuid4().hex)


def belongs(path: Path, app_id: str, cluster_id: str, changelog: str) -> None:
    """Check that a data directory belongs to this installation, and remove databases of another changelog.

    A database is at an offset of one changelog: with another changelog it would bring delivered messages back, and lose
    pending ones. The first use of a directory sets its installation.

    Raises DataDirectoryForeign if it belongs to another installation, or to another cluster.
    """
    ours = f"{app_id} on cluster {cluster_id}"
    theirs = stored_value(path, "installation", ours)
    if theirs != ours:
        raise DataDirectoryForeign(path, theirs, ours)
    _follow(path, app_id, changelog)


def _follow(path: Path, app_id: str, changelog: str) -> None:
    """Remove databases of another changelog, from before the number of partitions changed.

    Their offsets belong to the other log. A directory without a record has databases of the first changelog.
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
    """Write a file atomically: a full disk would otherwise leave an empty file."""
    new = file.with_name(f"{file.name}.new")
    new.write_text(value, "utf-8")
    new.replace(file)


def stored_value(path: Path, name: str, value: str) -> str:
    """Return the content of the file `name`; a new file gets `value`.

    Raises DataDirectoryUnusable if the file cannot be read or written.
    """
    file = path / name
    try:
        if not file.exists() or not file.read_text("utf-8").strip():
            _write(file, value)
        return file.read_text("utf-8").strip()
    except OSError as error:
        raise DataDirectoryUnusable(path, error) from error
