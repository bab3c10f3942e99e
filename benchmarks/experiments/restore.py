"""A worker that comes back: on its disk, after kill -9, on an empty disk. And what pending messages occupy."""

import time

from benchmarks.clock import now_ms, sleep_until
from benchmarks.errors import PromiseBroken
from benchmarks.figures import Figures
from benchmarks.installation import Installation
from benchmarks.meter import Meter, disk_bytes
from benchmarks.plan import Plan
from benchmarks.sizes import Sizes

_SETTLE_S = 2.0
_KILL_AFTER_MS = 1_500
#: By then the dead worker's last batches have reached the broker; no worker starts as fast.
_LAST_WORDS_MS = 100
#: The difference of two starts is noise below this: a net rate of a shorter time would be meaningless.
_TELLING_MS = 300


def measure(bootstrap: str, sizes: Sizes) -> Figures:
    """Hold `rows` pending messages; stop and start, kill and start, stop, empty the disk and start.

    Deliveries are timed by the broker's appends, starts from before the process exists: Python's start and the group's
    rebalance are included. The net rate of the restore leaves them out: it subtracts the time of the start on the same
    disk, which has no rows to restore.
    """
    with Installation(bootstrap, "restore") as here:
        empty = disk_bytes(here.worker.data)
        here.send(here.plan_far("far", sizes.rows, value_bytes=sizes.value_bytes))
        held = here.wait_settled().pending
        time.sleep(_SETTLE_S)  # compactions and Python's garbage
        footprint = _footprint(here, empty, held)

        here.worker.stop()
        waiting = here.plan("waiting", 1, now_ms())
        here.send(waiting)
        started = here.worker.start()
        same_disk = here.worker.wait_ready() - started
        here.wait_settled()

        ticking, killed = _kill(here)

        here.worker.stop()
        here.worker.wipe()
        wiped = here.worker.start()
        other_disk = here.worker.wait_ready() - wiped
        restored = here.wait_settled().pending
        if restored != held:
            raise PromiseBroken("restore", [f"{restored} messages are pending after it, {held} were before"])

        tally = here.tally(duplicates_allowed=True)
        [first] = tally.deliveries(waiting)
        after_kill = min(it.at_ms for it in tally.deliveries(ticking) if it.at_ms > killed + _LAST_WORDS_MS)
        net_ms = other_disk - same_disk
        return {
            "restore": {
                "rows_per_s": restored / other_disk * 1_000,
                **({"net_rows_per_s": restored / net_ms * 1_000} if net_ms > _TELLING_MS else {}),
                "empty_disk_ready_s": other_disk / 1_000,
                "same_disk_ready_s": same_disk / 1_000,
                "same_disk_delivery_s": (first.at_ms - started) / 1_000,
                "kill_delivery_s": (after_kill - killed) / 1_000,
            },
            "footprint": footprint,
        }


def _footprint(here: Installation, empty_bytes: int, held: int) -> dict[str, float]:
    """Return the memory, and the disk for each of the `held` pending messages."""
    with Meter(*here.pids) as meter:
        return {
            "rss_mib": meter.resident_mib(),
            "peak_mib": meter.peak_mib(),
            "disk_bytes": (disk_bytes(here.worker.data) - empty_bytes) / held,
            "pending": held,
        }


def _kill(here: Installation) -> tuple[Plan, int]:
    """Kill the worker while a message falls due every 10 ms, start it again, and wait until all are delivered."""
    due = now_ms() + _KILL_AFTER_MS
    ticking = here.plan("ticking", 300, due, step_us=10_000)
    here.send(ticking)
    here.wait_taken()
    sleep_until(due + _KILL_AFTER_MS)
    killed = here.worker.kill()
    here.worker.start()
    here.worker.wait_ready()
    here.wait_settled()
    return ticking, killed
