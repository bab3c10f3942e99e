"""The changelog is compacted, and read back from its beginning."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.chaos.compaction import compact_soon, wait_compacted
from tests.chaos.patient import compare
from tests.chaos.run import Run
from tests.chaos.scenario import scenario
from tests.harness.kafka import Requests, now_ms
from tests.harness.waiting import eventually


@scenario(
    "lost disks, with a changelog that is being compacted; kill -9 in the middle of restoring from it",
    ci=(),
)
def compacted_changelog(run: Run) -> None:
    worker = run.worker("one").start()
    worker.wait_ready()
    compact_soon(run, delete_retention_ms="500")
    with bulk(run, run.sizes(20_000, 100_000)), run.traffic(run.sizes(200, 400), far_ms=(9_000, 12_000)):
        time.sleep(3)
        for _ in run.rounds(1, 3):
            wait_compacted(run)
            run.kill(worker)
            worker.wipe()
            run.did("lost disks")
            for _ in run.rounds(3, 6):
                worker.start()
                eventually(lambda: "restoring" in worker.ready()[1] or worker.ready()[0], what="restoring")
                time.sleep(run.random.uniform(0, 0.3))
                run.did("killed while restoring" if not worker.ready()[0] else "killed after restoring")
                run.kill(worker)
            began = time.monotonic()
            worker.start().wait_ready()
            run.measure("start_and_restore_ms", int(1000 * (time.monotonic() - began)))
    compare(run, worker)


@contextmanager
def bulk(run: Run, count: int) -> Iterator[None]:
    """Keep `count` more messages in the table (with their own topic) and cancel them at the end of the block."""
    to = run.create_topic(f"{run.app_id}-bulk", 4)
    requests = Requests(run.bootstrap, run.app_id)
    ids = [f"bulk-{number}" for number in range(count)]
    for id_ in ids:
        requests.schedule(id_, now_ms() + 3_600_000, to, b"-" * 200)
    requests.flush()
    yield
    for id_ in ids:
        requests.cancel(id_)
    requests.flush()
