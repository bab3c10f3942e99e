"""Workers are replaced one after the other, some by newer versions."""

import time

from tests.chaos.patient import last_words
from tests.chaos.run import Run
from tests.chaos.scenario import scenario
from tests.harness.kafka import now_ms
from tests.harness.waiting import eventually
from tests.harness.worker import Worker


@scenario("two workers restarted one after the other, as an upgrade does", ci=())
def rolling_restart(run: Run) -> None:
    workers = run.two_workers()
    spans: list[tuple[int, int]] = []
    with run.traffic(200):
        for number in run.rounds(4, 14):
            shared(run, workers)
            begin = now_ms()
            worker = workers[number % 2]
            worker.stop()
            worker.start().wait_ready()
            run.did("restarts")
            spans.append((begin, now_ms()))
        shared(run, workers)
        time.sleep(2)
    for begin, end in spans:
        run.measure("longest_while_restarting_ms", run.longest_ms(begin, end))


def shared(run: Run, workers: list[Worker]) -> None:
    """Wait until the partitions are shared evenly and served."""
    eventually(lambda: all(len(worker.assigned) == run.partitions // 2 for worker in workers), what="sharing")
    for worker in workers:
        worker.wait_ready()


@scenario(
    "workers of a newer version that write rows, records and databases which older ones do not know",
    ci=(),
)
def newer_version(run: Run) -> None:
    worker = run.worker("one", clock=True).start()
    run._workers.remove(worker)  # the present version cannot check databases of a newer one
    worker.wait_ready()
    with run.traffic(150, far_ms=(9_000, 12_000)):
        for _ in run.rounds(1, 3):
            time.sleep(2)
            newer(run, worker, "database")
            worker.stop()
            older(worker)
            worker.wait_ready()
            run.expect("It is only a copy" in worker.log, "a database of a newer version was not dropped")
            time.sleep(2)
        for what in ("record", "row,record"):
            newer(run, worker, what)
            worker.stop()
            for _ in run.rounds(1, 3):
                if what == "record":  # on the same disk it is before the offset at which reading goes on
                    worker.wipe()
                older(worker)
                last_words(run, worker, "Upgrade this worker: a newer worker has written to the changelog.")
                run.did("starts of an older worker that cannot read")
        newer(run, worker, "row,record")


def newer(run: Run, worker: Worker, what: str) -> None:
    """Upgrade a worker on the same disk to a version whose `what` (HOOK_NEWER) is newer, and let it work for a
    while."""
    if worker.alive:
        worker.stop()
    worker.env["HOOK_NEWER"] = what
    worker.start().wait_ready()
    run.did(f"upgrades that change {what.replace(',', ' and ')}")
    time.sleep(2)


def older(worker: Worker) -> None:
    """Start a worker of the present version."""
    worker.env["HOOK_NEWER"] = ""
    worker.start()
