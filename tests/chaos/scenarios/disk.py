"""Disks fill up, break, and are lost, damaged or put back from a copy."""

import itertools
import json
import shutil
import time
from pathlib import Path
from typing import Self

from app.base.process.free_disk import wanted_bytes
from tables import PartitionStore
from tests.chaos.compaction import compact_soon, configure, wait_forgotten
from tests.chaos.patient import compare, last_words, start_again
from tests.chaos.run import Run
from tests.chaos.scenario import scenario
from tests.chaos.volume import Volume
from tests.harness.damage import WAYS, damage
from tests.harness.kafka import Requests, now_ms, read
from tests.harness.waiting import eventually
from tests.harness.worker import Worker

_MIB = 1 << 20
_DISK = 384 * _MIB
_MIN_FREE = wanted_bytes(_DISK)
#: A worker without room accepts no requests after this time; earlier ones are on their way through until then.
_NOTICED_MS = 2_500


@scenario("a disk with too little room for a while", ci=())
def little_disk(run: Run) -> None:
    volume = run.enter(Volume(run.directory / "one", _DISK))
    worker = run.worker("one").start()
    worker.wait_ready()
    with run.traffic(150, lead_ms=(300, 8_000)):
        for _ in run.rounds(1, 3):
            time.sleep(5)
            little_room(run, worker, volume)
    compare(run, worker)


@scenario("no room on the disk, and a disk that turns read-only, under a running worker", ci=())
def full_disk(run: Run) -> None:
    volume = run.enter(Volume(run.directory / "one", _DISK))
    worker = run.worker("one").start()
    worker.wait_ready()
    bulk = Bulk(run)
    with run.traffic(150, far_ms=(9_000, 11_000)):
        for _ in run.rounds(1, 3):
            time.sleep(2)
            no_room(run, worker, volume, bulk)
            time.sleep(2)
            read_only(run, worker, volume)
    compare(run, worker)


def little_room(run: Run, worker: Worker, volume: Volume) -> None:
    """Leave too little room for a while: requests wait, pending messages are delivered on time."""
    volume.fill(_MIN_FREE // 2)
    begin = now_ms()
    eventually(
        lambda: "The worker accepts no requests until more space is free" in worker.log, what="a word about the disk"
    )
    time.sleep(run.sizes(5, 7))  # after a longer pause, cancels would not be read before their messages are due
    end = now_ms()
    volume.make_room()
    eventually(lambda: "enough disk space is free again" in worker.log, what="a word about room")
    accepted, late = what_came(run, begin + _NOTICED_MS, end)
    run.expect(not accepted, f"{accepted} requests were accepted without room on the disk")
    run.expect(late, "no message was delivered while there was little room on the disk")
    run.measure("delivered_with_little_room", len(late))
    run.measure("late_with_little_room_ms", max(late, default=0))
    run.did("little room")
    back = eventually(lambda: what_came(run, end, now_ms())[0], what="requests being accepted again")
    run.measure("accepting_again_ms", int(back * 1000))


def what_came(run: Run, begin_ms: int, end_ms: int) -> tuple[int, list[int]]:
    """Return how many requests were accepted between the two, and how late each delivery between the two was."""
    events = (json.loads(record.value or b"") for record in read(run.bootstrap, f"{run.app_id}-events"))
    accepted = sum(event["event"] == "accepted" and begin_ms <= event["at"] < end_ms for event in events)
    records = (record for out in run.outs for record in read(run.bootstrap, out))
    late = [
        record.timestamp_ms - int(record.header("delay-due"))
        for record in records
        if begin_ms <= record.timestamp_ms < end_ms and int(record.header("delay-due")) >= begin_ms
    ]
    return accepted, late


def no_room(run: Run, worker: Worker, volume: Volume, bulk: "Bulk") -> None:
    """Leave no room: the worker exits at a write that fails, does not start, and goes on when there is room."""
    volume.fill()
    began = time.monotonic()
    while worker.alive:
        assert time.monotonic() - began < 60, "the worker still runs on a full disk"
        bulk.send(20)
    run.did("full disks")
    last_words(run, worker, "No space left on device")
    worker.start()
    last_words(run, worker, "No space left on device")
    volume.make_room()
    run.expect(not start_again(run, worker), "a worker ended although there was room again")


class Bulk:
    """Large messages, due at once, to a topic of their own: they fill write-ahead logs and tables."""

    def __init__(self, run: Run) -> None:
        self._to = run.create_topic(f"{run.app_id}-bulk", 1)
        self._requests, self._run = Requests(run.bootstrap, run.app_id), run

    def send(self, count: int) -> None:
        """Send `count` messages of 100 kB each, all over the partitions."""
        for number in range(count):
            headers = {"delay-to": self._to, "delay-after": "100"}
            value = self._run.random.randbytes(100_000)
            self._requests.send(headers, None, value, partition=number % self._run.partitions)
        self._requests.flush()


def read_only(run: Run, worker: Worker, volume: Volume) -> None:
    """Turn the file system read-only: the worker exits, does not start, and goes on after a repair."""
    volume.fail()
    run.measure("read_only_noticed_ms", last_words(run, worker, "cannot be used"))
    run.did("read-only disks")
    worker.start()
    last_words(run, worker, "Read-only file system")
    volume.repair()
    run.expect(start_again(run, worker) <= 1, "a worker ended more than once although its disk was repaired")


@scenario("kill -9 and a damaged or lost data directory, again and again", ci=())
def damaged_disk(run: Run) -> None:
    worker = run.worker("one").start()
    worker.wait_ready()
    ways = itertools.cycle(WAYS)
    with run.traffic(200, far_ms=(9_000, 12_000)):
        for number in run.rounds(6, 40):
            time.sleep(run.random.uniform(0.5, 1.5 if run.short else 4))
            if number % 6 == 0:
                removed(run, worker)
            else:
                damaged(run, worker, next(ways))
    compare(run, worker)


def damaged(run: Run, worker: Worker, way: str) -> None:
    """Kill a worker, damage all of its databases in one way, and start it again."""
    run.kill(worker)
    for path in worker.tables():
        damage(path, way, run.random)
    run.did(way)
    # Damage deep in a table is found when it is read: the worker ends, and is started again.
    ended = start_again(run, worker)
    run.measure("ends_before_ready", ended)
    dropped = worker.log.count("deletes it and restores it")
    run.did("databases dropped", dropped)


@scenario("an old copy of the data directory, from before and after tombstones were compacted away", ci=())
def old_disk(run: Run) -> None:
    worker = run.worker("one").start()
    worker.wait_ready()
    compact_soon(run)
    with run.traffic(150, lead_ms=(2_000, 6_000), far_ms=(9_000, 12_000)):
        for _ in run.rounds(1, 2):
            time.sleep(3)
            configure(run, delete_retention_ms=_WEEK_MS)
            with Copy(run, worker) as young:
                time.sleep(4)
            young.put_back()
            run.expect("restored from the changelog" not in worker.log, "a copy that was young enough was dropped")
            run.did("copies put back within the tombstones' time")

            # The first cleaning decides how long a tombstone stays: later ones are soon gone.
            configure(run, delete_retention_ms="1000")
            with Copy(run, worker) as old:
                wait_forgotten(run, old.rows)
            old.put_back()
            run.expect("Newer tombstones may be compacted away" in worker.log, "a copy that was too old was believed")
            run.did("copies put back after the tombstones' time")
    other_installation(run, worker)
    compare(run, worker)


_WEEK_MS = str(7 * 86_400_000)


class Copy:
    """A copy of a worker's data directory, taken while it is stopped; at the end of the `with` block it is stopped."""

    def __init__(self, run: Run, worker: Worker) -> None:
        self._run, self._worker = run, worker
        self._path = Path(f"{worker.data}.copy")
        #: The keys of the rows in it, by partition.
        self.rows: dict[int, set[bytes]] = {}

    def __enter__(self) -> Self:
        self._worker.stop()
        shutil.copytree(self._worker.data, self._path)
        for path in self._worker.tables():
            store = PartitionStore(path)
            self.rows[int(path.stem.rsplit("-", 1)[1])] = {key for key, _ in store.rows()}
            store.close()
        self._worker.start().wait_ready()
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.stop()

    def put_back(self) -> None:
        """Replace the stopped worker's data directory by the copy, and start it."""
        shutil.rmtree(self._worker.data)
        self._path.rename(self._worker.data)
        self._worker.start().wait_ready()


def other_installation(run: Run, worker: Worker) -> None:
    """Start a worker of another installation with this one's data directory: it must exit and leave the data alone."""
    worker.stop()
    other = Worker(run.bootstrap, f"{run.app_id}b", worker.data, partitions=run.partitions, env={**worker.env})
    with other:
        other.start()
        last_words(run, other, f"belongs to {run.app_id} on cluster")
    run.did("starts with another installation's data directory")
    worker.start().wait_ready()


def removed(run: Run, worker: Worker) -> None:
    """Remove the data directory under a running worker."""
    shutil.rmtree(worker.data)
    run.measure("removal_noticed_ms", last_words(run, worker, "cannot be used"))
    run.did("data directories removed under a worker")
    run.expect(not start_again(run, worker), "a worker ended again although its data directory had only been removed")
