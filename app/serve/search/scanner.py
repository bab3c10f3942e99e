"""The process that scans a worker's databases, so that no scan delays a delivery.

It opens each database as a secondary instance (RocksDB's wiki, "Read-only and Secondary instances"): that reads the
worker's files, the log included, and neither locks nor writes them. It runs at low priority, and ends with the worker
because its input is a pipe.
"""

import contextlib
import os
import shutil
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import msgspec
import rocksdict

from app.base.process import time_slice
from app.serve.search.cpu_backoff import CpuBackoff
from app.serve.search.scan import ScanQuery, ScanResult, scan
from tables.database import Database
from tables.rocksdb_options import rocksdb_options

#: The length in bytes of the message that follows, in both directions.
LENGTH: Final = struct.Struct(">I")
_NICE: Final = 10
#: The nice value of a session on Linux (sched(7), autogroup). Without it, the worker's session and its scanner's
#: session get equal shares, because a process's own nice value counts only within its session. At 10, a busy core
#: leaves the scanner a tenth, which is enough to answer in time.
_SESSION: Final = Path("/proc/self/autogroup")
#: The argument of a process that runs only when cores are idle.
IDLE: Final = "idle"


class ScannerQuestion(msgspec.Struct, frozen=True):
    """A scan of some partitions: their numbers, and the paths of their databases; `here` has all served paths.

    The databases in `here` stay open for later scans of other partitions, such as a `job`'s, for which no person waits.
    """

    parts: list[tuple[int, str]]
    scan: ScanQuery
    here: list[str]
    job: bool = False


class ScannerAnswer(msgspec.Struct):
    """The result of a scan, or an error: a sentence."""

    found: ScanResult | None = None
    error: str = ""


encode: Final = msgspec.msgpack.Encoder().encode


class Secondary(Database):
    """A worker's database, read from another process."""

    def __init__(self, path: Path, own: Path) -> None:
        """Open the database at `path`; `own` is a directory for this process's RocksDB log."""
        self.path = path
        options = rocksdb_options()
        options.set_max_open_files(-1)  # files stay readable after the worker has merged and deleted them
        self._db = rocksdict.Rdict(str(path), options, access_type=rocksdict.AccessType.secondary(str(own)))

    def catch_up(self) -> None:
        """Read the worker's writes up to now."""
        self._db.try_catch_up_with_primary()

    def condemn(self) -> None:
        """Do nothing: a read error may come from a file that the worker has just replaced."""


class Secondaries:
    """The open databases; if the worker re-creates a database, it is opened again."""

    def __init__(self, own: Path) -> None:
        """Begin with no open database; `own` is a directory for RocksDB's logs."""
        self._own, self._open = own, dict[str, tuple[bytes, Secondary]]()

    def get(self, path: str) -> Secondary:
        """Return the database at `path` in its current state."""
        # Written when a database is created. Its inode would not do, because inodes of removed files are reused.
        identity = (Path(path) / "IDENTITY").read_bytes()
        known = self._open.get(path)
        if known is not None and known[0] == identity:
            known[1].catch_up()
            return known[1]
        self.drop(path)
        own = Path(tempfile.mkdtemp(dir=self._own))
        self._open[path] = identity, Secondary(Path(path), own)
        return self._open[path][1]

    def keep(self, paths: set[str]) -> None:
        """Close all databases except those at `paths`, because the worker has lost their partitions."""
        for path in self._open.keys() - paths:
            self.drop(path)

    def drop(self, path: str) -> None:
        """Close the database at `path`, if it is open."""
        known = self._open.pop(path, None)
        if known is not None:
            known[1].close()


def answer(secondaries: Secondaries, question: ScannerQuestion, backoff: CpuBackoff) -> ScannerAnswer:
    """Return the result of a scan; if files were removed during it, open the databases again and retry once."""
    paths = {path for _, path in question.parts}
    secondaries.keep(set(question.here))
    backoff.waited_for = not question.job
    for last in (False, True):
        try:
            parts: list[tuple[int, Any]] = [(number, secondaries.get(path)) for number, path in question.parts]
            return ScannerAnswer(scan(parts, question.scan, backoff.rest))
        except Exception as error:  # noqa: BLE001 - the next scan may succeed after any error
            for path in paths:
                secondaries.drop(path)
            if last:
                return ScannerAnswer(error=f"{type(error).__name__}: {error}")
    raise AssertionError("the second time returns")


def yield_to_others(*, idle: bool) -> None:
    """Lower the priority of this process; with `idle`, any other process that needs the core takes it at once.

    A process with only a nice value keeps its core until its slice is over, three milliseconds (Linux 6.6 on, EEVDF):
    at 18,000 messages a second above three million, searches raised the lateness' p99 from 23 ms to 360, and to 33 with
    short slices. Where short slices are not supported, an idle process does no harm either, unless sessions are groups,
    where `idle` has no effect; but on a fully loaded machine it gets hardly any time.
    """
    os.nice(_NICE)
    with contextlib.suppress(OSError):
        _SESSION.write_text(str(_NICE), "utf-8")
    time_slice.shorten()
    if idle and hasattr(os, "SCHED_IDLE"):
        with contextlib.suppress(OSError):  # where it is forbidden
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def main(directory: str, *, idle: bool) -> None:
    """Answer questions from the input until it ends; in both directions, a length of four bytes, then msgpack."""
    worker_is_nice = os.getpriority(os.PRIO_PROCESS, 0) > 0
    yield_to_others(idle=idle)
    own = Path(directory)
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir(parents=True)
    secondaries, backoff = Secondaries(own), CpuBackoff(worker_is_nice=worker_is_nice)
    decoder = msgspec.msgpack.Decoder(ScannerQuestion)
    take, give = sys.stdin.buffer, sys.stdout.buffer
    try:
        while len(head := take.read(LENGTH.size)) == LENGTH.size:
            question = decoder.decode(take.read(LENGTH.unpack(head)[0]))
            body = encode(answer(secondaries, question, backoff))
            give.write(LENGTH.pack(len(body)) + body)
            give.flush()
    except (BrokenPipeError, KeyboardInterrupt):
        pass
    finally:
        secondaries.keep(set())
        shutil.rmtree(own, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1], idle=sys.argv[2:] == [IDLE])
