"""Run the pipeline with a point at which it kills itself: `python tests/harness/hooked_pipeline.py COMMAND …`.

HOOK_CRASH_AT names a point of POINTS at whose HOOK_CRASH_HIT-th passing the process and its Java are killed with
SIGKILL. The command `cold DIR` is one more than the pipeline has: `park` and `promote` by turns in one process, with a
compaction after each fifth turn; it says what it does on stdout. Its points have the name of what it does before them:
`park.write.begun`.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Run by its path, so that Python puts this directory first; the packages are found from the root.
if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[2])

from confluent_kafka import KafkaException

from pipeline import __main__ as command_line
from pipeline.context import Context
from pipeline.files import Files
from pipeline.jobs import JOBS, park, promote
from pipeline.jobs.reconcile import duration
from pipeline.kafka import Kafka
from pipeline.lake import Lake
from tests.harness.kafka import ends

#: While files are written, and when they are; when a commit's file is, and when it counts; while records are sent, and
#: when all of them are.
WRITES, COMMITS, SENDS = ("write.begun", "write.done"), ("commit.begun", "commit.done"), ("send.begun", "send.done")
POINTS = {
    "park": (*WRITES, *COMMITS),
    "compact": (*WRITES, *COMMITS),
    "promote": (*SENDS, *COMMITS),
    "bulk": SENDS,
    "ledger": (*WRITES, *COMMITS),
    "rescue": (*SENDS, *COMMITS),
}
_POLL_S = 0.002


class CutOff(BaseException):
    """What cuts a command off in its process: nothing of it catches that."""


class Points:
    """The passings of one point, and what happens at the last of them."""

    def __init__(self, wanted: str, hit: int, crash: Callable[[], object]) -> None:
        self.doing = ""
        self._wanted, self._left, self._crash = wanted, hit, crash

    def reached(self, point: str) -> None:
        """Crash, if that is the point's last passing."""
        if self._awaits(point):
            self._left -= 1
            if not self._left:
                self._crash()

    def while_there(self, point: str, begun: Callable[[], object]) -> Callable[[], None]:
        """Crash as soon as something has `begun`, from another thread; give what ends the watch."""
        over = threading.Event()
        if not self._awaits(point):
            return over.set

        def watch() -> None:
            while not over.wait(_POLL_S):
                if begun():
                    self.reached(point)
                    return

        threading.Thread(target=watch, daemon=True).start()
        return over.set

    def _awaits(self, point: str) -> bool:
        return self._left > 0 and self._wanted in (point, f"{self.doing}.{point}")


def install(points: Points, set_attribute: Callable[[type, str, Any], object] = setattr) -> None:
    """Have what the pipeline writes pass the points."""
    write, write_new, send = Lake.write, Files.write_new, Kafka.write

    def written(lake: Lake, table: str, rows: Any, by: str | None = None) -> list[str]:
        before = set(Path(lake.files.root, table).glob("*"))

        def begun() -> bool:
            new = set(Path(lake.files.root, table).glob("*")) - before
            return any(next(each.rglob("*.parquet"), None) for each in new)

        done = points.while_there("write.begun", begun)
        names = write(lake, table, rows, by)
        done()
        points.reached("write.done")
        return names

    def committed(files: Files, name: str, text: str) -> bool:
        rename = files._fs.rename

        class Fs:
            def __getattr__(self, asked: str) -> Any:
                return getattr(fs, asked)

            def rename(self, *paths: Any) -> Any:
                points.reached("commit.begun")
                return rename(*paths)

        fs, files._fs = files._fs, Fs()
        there = write_new(files, name, text)
        files._fs = fs
        points.reached("commit.done")
        return there

    def sent(kafka: Kafka, records: Any, topic: str) -> None:
        def end() -> int:
            try:
                return sum(ends(kafka.bootstrap, topic).values())
            except KafkaException:
                return 0

        before = end()
        done = points.while_there("send.begun", lambda: end() > before)
        send(kafka, records, topic)
        done()
        points.reached("send.done")

    set_attribute(Lake, "write", written)
    set_attribute(Files, "write_new", committed)
    set_attribute(Kafka, "write", sent)


def kill() -> None:
    """Kill this process, after its Java."""
    tasks = Path("/proc/self/task").iterdir()
    for pid in {int(pid) for task in tasks for pid in (task / "children").read_text().split()}:
        os.kill(pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


class Cold:
    """The command `cold`."""

    __doc__ = "Park and promote by turns."
    TOPICS = ("cold", "requests")
    AGAIN = ""

    def __init__(self, points: Points) -> None:
        self._points = points

    def add_options(self, parser: Any) -> None:
        """Add the command's own options."""
        parser.add_argument("cold")
        parser.add_argument("--lead", default="PT1H")

    def run(self, context: Context, options: Any) -> None:
        """Go on until the process is killed."""
        turn = 0
        while True:
            turn += 1
            lead_ms = duration(options.lead)
            self._do("park", lambda: park.park(context, context.lake(options.cold, park.KIND)))
            if turn % 5 == 0:
                self._do("compact", lambda: park.compact(context.lake(options.cold, park.KIND)))
            self._do("promote", lambda: promote.promote(context, options.cold, lead_ms))  # noqa: B023 - called at once
            time.sleep(0.5)

    def _do(self, what: str, job: Callable[[], int | None]) -> None:
        self._points.doing = what
        sys.stdout.write(f"{time.time():.3f} {what} {job()}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    chosen = Points(os.environ.get("HOOK_CRASH_AT", ""), int(os.environ.get("HOOK_CRASH_HIT", "1")), kill)
    chosen.doing = sys.argv[1]
    install(chosen)
    JOBS["cold"] = Cold(chosen)  # type: ignore[assignment]
    sys.exit(command_line.main(sys.argv[1:]))
