"""The process that goes through a worker's databases, so that no look at them holds up a delivery.

It opens each as a secondary instance (RocksDB's wiki, "Read-only and Secondary instances"): that reads what the worker
has written, its log included, and neither locks nor writes anything of it. It is nice to everyone else, and ends when
the worker does: its input is a pipe.
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

#: Before each message, either way: how many bytes it has.
LENGTH: Final = struct.Struct(">I")
_NICE: Final = 10
#: Where Linux says how nice a session is to others (sched(7), autogroup): without that, all of a worker and all of its
#: scanner, which has a session of its own, get the same, however nice or idle a process is among those of its session.
#: At 10 a core that is wanted all the time leaves it a tenth: enough to begin, and to answer in time.
_SESSION: Final = Path("/proc/self/autogroup")
#: The argument of a process that is to have what nobody else wants.
IDLE: Final = "idle"


class ScannerQuestion(msgspec.Struct, frozen=True):
    """A scan of some partitions: their numbers, and where their databases are; `here` has those of all that are served.

    Questions about one partition after the other, as a `job`'s are, have none opened anew; no person waits for them.
    """

    parts: list[tuple[int, str]]
    scan: ScanQuery
    here: list[str]
    job: bool = False


class ScannerAnswer(msgspec.Struct):
    """What was found, or why nothing could be: a sentence."""

    found: ScanResult | None = None
    error: str = ""


encode: Final = msgspec.msgpack.Encoder().encode


class Secondary(Database):
    """A worker's database as another process may read it."""

    def __init__(self, path: Path, own: Path) -> None:
        """Open it; `own` is a directory for this process's log of it."""
        self.path = path
        options = rocksdb_options()
        options.set_max_open_files(-1)  # the worker deletes files that it has merged: those that are open stay
        self._db = rocksdict.Rdict(str(path), options, access_type=rocksdict.AccessType.secondary(str(own)))

    def catch_up(self) -> None:
        """See what was written up to now."""
        self._db.try_catch_up_with_primary()

    def condemn(self) -> None:
        """Mark nothing: what a reader meets may be a file that the worker has just replaced."""


class Secondaries:
    """The databases that are open here; one that the worker has made anew is opened anew."""

    def __init__(self, own: Path) -> None:
        """Have none open; `own` is a directory for what RocksDB notes of them."""
        self._own, self._open = own, dict[str, tuple[bytes, Secondary]]()

    def get(self, path: str) -> Secondary:
        """Return a database as it is now."""
        # Written when a database is made. Its inode would tell nothing: that of a file that is removed is used again.
        identity = (Path(path) / "IDENTITY").read_bytes()
        known = self._open.get(path)
        if known is not None and known[0] == identity:
            known[1].catch_up()
            return known[1]
        if known is not None:
            self.drop(path)
        own = Path(tempfile.mkdtemp(dir=self._own))
        self._open[path] = identity, Secondary(Path(path), own)
        return self._open[path][1]

    def keep(self, paths: set[str]) -> None:
        """Close all others: their partitions are not the worker's any more."""
        for path in self._open.keys() - paths:
            self.drop(path)

    def drop(self, path: str) -> None:
        """Close a database, if it is open."""
        known = self._open.pop(path, None)
        if known is not None:
            known[1].close()


def answer(secondaries: Secondaries, question: ScannerQuestion, backoff: CpuBackoff) -> ScannerAnswer:
    """Return what a question comes to; once more with databases opened anew, if files went away under it."""
    paths = {path for _, path in question.parts}
    secondaries.keep(set(question.here))
    backoff.waited_for = not question.job
    for last in (False, True):
        try:
            parts: list[tuple[int, Any]] = [(number, secondaries.get(path)) for number, path in question.parts]
            return ScannerAnswer(scan(parts, question.scan, backoff.rest))
        except Exception as error:  # noqa: BLE001 - whatever it is, the next question may fare better
            for path in paths:
                secondaries.drop(path)
            if last:
                return ScannerAnswer(error=f"{type(error).__name__}: {error}")
    raise AssertionError("the second time returns")


def yield_to_others(*, idle: bool) -> None:
    """Be nice; `idle` is more than that: whoever else wants a core takes it away at once.

    A process that is nice alone keeps its core until its slice is over, three milliseconds (Linux 6.6 on, EEVDF): at
    18,000 messages a second above three million, searches made the lateness' p99 360 ms instead of 23, and 33 with
    short slices. Where there are none, an idle process does no harm either, unless sessions are groups, where that does
    not count; but on a machine without any time to spare it gets hardly any.
    """
    os.nice(_NICE)
    with contextlib.suppress(OSError):
        _SESSION.write_text(str(_NICE), "utf-8")
    time_slice.shorten()
    if idle and hasattr(os, "SCHED_IDLE"):
        with contextlib.suppress(OSError):  # where that is forbidden
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def main(directory: str, *, idle: bool) -> None:
    """Answer questions from the input until it ends; each way: a length of four bytes, then msgpack."""
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
