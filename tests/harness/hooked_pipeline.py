"""Run the pipeline with a point at which it kills itself: `python tests/harness/hooked_pipeline.py COMMAND …`.

HOOK_CRASH_AT names a point at whose first passing the process and its Java are killed with SIGKILL: the job and one of
its POINTS, as in `park.write.begun`. `rescue` begins with a `ledger`, and `park --compact` ends with a `compact`.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Run by its path, so that Python puts this directory first; the packages are found from the root.
if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[2])

from confluent_kafka import KafkaException

from pipeline import __main__ as command_line
from pipeline.commit import Commit
from pipeline.jobs import ledger, park
from pipeline.kafka import Kafka
from pipeline.lake import Lake
from pipeline.ledger.intake import take_in
from tests.harness.kafka import asked_for_ends

#: A write begins, its files are being written, it is committed; records are being sent, all are sent.
COMMITS, SENDS = ("commit.begun", "write.begun", "commit.done"), ("send.begun", "send.done")
POINTS = {
    "park": COMMITS,
    "compact": COMMITS,
    "promote": (*SENDS, *COMMITS),
    "bulk": SENDS,
    "ledger": COMMITS,
    "rescue": (*SENDS, *COMMITS),
}
_POLL_S = 0.002


class CutOff(BaseException):
    """Cuts a command off in its process: no handler of the pipeline catches a BaseException."""


def points_of(*jobs: str) -> list[str]:
    """Return the points of the `jobs`."""
    return [f"{job}.{point}" for job in jobs for point in POINTS[job]]


class Points:
    """Crashes at the first passing of the point `wanted`; `doing` is the job."""

    def __init__(self, doing: str, wanted: str, crash: Callable[[], object]) -> None:
        self._doing, self._crash = doing, crash
        self._wanted: str | None = wanted

    def reached(self, point: str) -> None:
        """Crash, if that is the point."""
        if self._awaits(point):
            self._wanted = None
            self._crash()

    @contextmanager
    def watching(self, point: str, begun: Callable[[], object]) -> Iterator[None]:
        """Crash as soon as the block has `begun` something, from another thread; at the latest when it is over."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(_POLL_S):
                if begun():
                    self.reached(point)
                    return

        thread = threading.Thread(target=watch, daemon=True)
        if self._awaits(point):
            thread.start()
        try:
            yield
        finally:
            over.set()
            if thread.ident is not None:
                thread.join()
        self.reached(point)

    def within(self, doing: str, job: Callable[..., Any]) -> Callable[..., Any]:
        """Return a job as a part of another, with points of its own."""

        def done(*arguments: Any, **options: Any) -> Any:
            outer, self._doing = self._doing, doing
            try:
                return job(*arguments, **options)
            finally:
                self._doing = outer

        return done

    def _awaits(self, point: str) -> bool:
        return self._wanted == f"{self._doing}.{point}"


def install(points: Points, set_attribute: Callable[[Any, str, Any], object] = setattr) -> None:
    """Patch the pipeline's writes, commits and sends so that they pass the points."""
    write, send = Lake._write, Kafka.write

    def written(lake: Lake, rows: Any, commit: Commit, replaced: Any) -> None:
        if commit.number == 1:  # it creates the table, empty
            write(lake, rows, commit, replaced)
            return
        points.reached("commit.begun")
        before = set(Path(lake.root).rglob("*.parquet"))
        with points.watching("write.begun", lambda: bool(set(Path(lake.root).rglob("*.parquet")) - before)):
            write(lake, rows, commit, replaced)
        points.reached("commit.done")

    def sent(kafka: Kafka, records: Any, topic: str) -> None:
        with asked_for_ends(kafka.bootstrap, topic) as ends:

            def end() -> int:
                try:
                    return sum(ends().values())
                except KafkaException:
                    return 0

            before = end()
            with points.watching("send.begun", lambda: end() > before):
                send(kafka, records, topic)
        points.reached("send.done")

    set_attribute(Lake, "_write", written)
    set_attribute(Kafka, "write", sent)
    set_attribute(park, "compact", points.within("compact", park.compact))
    set_attribute(ledger, "take_in", points.within("ledger", take_in))


def kill() -> None:
    """Kill this process, after its Java."""
    tasks = Path("/proc/self/task").iterdir()
    for pid in {int(pid) for task in tasks for pid in (task / "children").read_text("utf-8").split()}:
        os.kill(pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    install(Points(sys.argv[1], os.environ["HOOK_CRASH_AT"], kill))
    sys.exit(command_line.main(sys.argv[1:]))
