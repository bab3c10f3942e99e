"""Run a worker with hooks: `python tests/harness/hooked.py -A app worker -l info`, configured by the environment.

HOOK_CRASH_AT and HOOK_CRASH_HIT name a point of the order of operations at whose n-th passing the process kills itself
with SIGKILL. Points of steps are called `ingest.<point>` if the step moves a position and has something to send, and
`fire.<point>` if it ends rows that were sent; points of sends are called `fire.before-send`, `fire.sent` and
`fire.acked`.
HOOK_CLOCK names a file of 8 bytes, a signed native number of milliseconds by which the worker's clock is off; whoever
writes the file moves the clock at once.
HOOK_FREE_DISK is the number of bytes that must be free on the disk.
HOOK_NEWER names the parts that this worker writes as a newer version would, and reads next to the old ones: `row`,
`record` (of a new kind), `database`.
"""

import mmap
import os
import signal
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Run by its path, so that Python puts this directory first; the packages are found from the root.
sys.path[0] = str(Path(__file__).parents[2])

from app.base.clock import Clock  # noqa: E402 - found after the line above
from app.base.process import free_disk  # noqa: E402 - the same
from app.engine.commit.journal import Journal  # noqa: E402 - the same
from app.engine.steps.step import Step  # noqa: E402 - the same
from tables import Changes, PartitionStore, entry, store  # noqa: E402 - the same


def kinds(step: Step | None) -> list[str]:
    """Return the kinds of a step: it can be both when records and outcomes came together."""
    if step is None:
        return ["fire"]
    named = {"ingest": bool(step.changes.positions and (step.events or step.sends)), "fire": bool(step.fired)}
    return [kind for kind, is_one in named.items() if is_one]


def crash_at(wanted: str, hit: int) -> None:
    """Make the process kill itself at the `hit`-th passing of the `wanted` point."""
    left = hit

    def reached(self: Journal, point: str, step: Step | None) -> None:  # noqa: ARG001 - a method
        nonlocal left
        left -= sum(f"{kind}.{point}" == wanted for kind in kinds(step))
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    Journal.reached = reached  # type: ignore[method-assign]


def shift_clock(path: str) -> None:
    """Move the wall clock by the offset in the file at `path`."""
    with Path(path).open("rb") as file:
        offset = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
    read = Clock.wall_ms

    def wall_ms() -> int:
        moved: int = struct.unpack("q", offset[:8])[0]
        return read() + moved

    Clock.wall_ms = staticmethod(wall_ms)  # type: ignore[method-assign]


def be_newer(what: set[str]) -> None:
    """Write these parts as a future version may; the present version must not take them for its own."""
    if "row" in what:
        entry._PREFIXES[entry.VERSION] = bytes([entry.VERSION + 1])
        decode_any = lambda raw: _decoder.decode(raw[1:])  # type: ignore[name-defined]  # noqa: E731, F821
        entry.decode.__code__ = decode_any.__code__  # others have imported the function
        store.FORMAT += 1
    if "record" in what:
        records, replay_mark = Changes.records, PartitionStore._replay_mark

        def with_another(self: Changes, writer: int) -> Iterator[tuple[bytes, bytes | None]]:
            yield from records(self, writer)
            yield b"z", b"of a kind to come"

        def without_it(self: PartitionStore, batch: Any, key: bytes, value: bytes | None) -> None:
            if key != b"z":
                replay_mark(self, batch, key, value)

        Changes.records = with_another  # type: ignore[method-assign]
        PartitionStore._replay_mark = without_it  # type: ignore[method-assign]
    if "database" in what:
        store._LAYOUTS += 1
        store.FORMAT += 1


if __name__ == "__main__":
    if os.environ.get("HOOK_NEWER"):
        be_newer(set(os.environ["HOOK_NEWER"].split(",")))
    if os.environ.get("HOOK_CRASH_AT"):
        crash_at(os.environ["HOOK_CRASH_AT"], int(os.environ.get("HOOK_CRASH_HIT", "1")))
    if os.environ.get("HOOK_CLOCK"):
        shift_clock(os.environ["HOOK_CLOCK"])
    if os.environ.get("HOOK_FREE_DISK"):
        free_disk.LEAST = int(os.environ["HOOK_FREE_DISK"])  # type: ignore[misc]
    from faust.cli.faust import cli

    cli()
