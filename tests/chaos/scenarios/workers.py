"""Workers are killed, stopped, and come and go."""

import os
import signal
import time
from typing import TYPE_CHECKING

from tests.chaos.run import Run
from tests.chaos.scenario import scenario
from tests.harness.kafka import now_ms
from tests.harness.waiting import eventually

if TYPE_CHECKING:
    from tests.harness.worker import Worker

_SESSION_S = 6.0
#: The promised maximum pauses on an idle machine.
_TAKEN_OVER_MS, _RESTARTED_MS = 15_000, 2_000


@scenario("kill -9 of either of two workers, again and again; every tenth one also loses its disk")
def kill_loop(run: Run) -> None:
    workers = [run.worker("one").start(), run.worker("two").start()]
    for worker in workers:
        worker.wait_ready()
    with run.traffic(run.sizes(200, 600)):
        for number in run.rounds(10, 200):
            time.sleep(run.random.uniform(0.3, 2.5 if run.short else 6))
            victim = run.random.choice(workers)
            run.kill(victim)
            if number % 10 == 0:
                victim.wipe()
                run.did("lost disks")
            if run.random.random() < 0.1:
                time.sleep(_SESSION_S + 2)
                run.did("left dead until its partitions moved")
            victim.start()
            if number % 10 == 0:
                victim.wait_ready()
        for worker in workers:
            worker.wait_ready()


@scenario("SIGSTOP of one of two workers until its partitions have moved, then SIGCONT", ci=())
def zombie(run: Run) -> None:
    workers = [run.worker("one").start(), run.worker("two").start()]
    for worker in workers:
        worker.wait_ready()
    with run.traffic(300):
        for number in run.rounds(1, 10):
            victim = workers[number % 2]
            eventually(lambda: all(len(worker.assigned) == run.partitions // 2 for worker in workers), what="sharing")
            time.sleep(2)
            run.crashed(victim)
            os.kill(victim.pid, signal.SIGSTOP)
            time.sleep(_SESSION_S + run.random.uniform(2, 8))
            os.kill(victim.pid, signal.SIGCONT)
            run.did("stopped beyond the session timeout")
            time.sleep(4)
            if not victim.alive:  # it has seen that it is no longer the owner, as a supervisor would see
                victim.start()
                run.did("ended itself")
            victim.wait_ready()


@scenario("one worker becomes five and one again, gracefully", ci=())
def scaling(run: Run) -> None:
    first = run.worker("one").start()
    first.wait_ready()
    more: list[Worker] = []
    with run.traffic(300):
        for _ in run.rounds(1, 8):
            more = more or [run.worker(f"more-{number}") for number in range(4)]
            for worker in more:
                worker.start()
                worker.wait_ready()
                run.did("workers added")
                time.sleep(run.random.uniform(0, 2))
            for worker in more:
                worker.stop()
                run.did("workers removed")
                time.sleep(run.random.uniform(0, 2))
        first.wait_ready()


@scenario(
    "kill -9 of one of two workers, which stays away; then graceful restarts", ci=(), partitions=16, max_in_flight=1_000
)
def pauses(run: Run) -> None:
    one, two = run.worker("one").start(), run.worker("two").start()
    one.wait_ready()
    with run.traffic(200, lead_ms=(500, 1_000)):
        for _ in run.rounds(1, 5):
            for worker in (one, two):
                worker.wait_ready()
            eventually(lambda: len(one.assigned) == len(two.assigned), what="sharing")
            time.sleep(2)
            begin, moved = now_ms(), two.assigned
            run.kill(two)
            time.sleep(_SESSION_S + 6)
            run.measure("longest pause after kill -9, ms", run.longest_ms(begin, now_ms() - 2_000, moved))
            begin = now_ms()
            one.stop()
            one.start().wait_ready()
            time.sleep(3)
            run.did("SIGTERM and start")
            run.measure("longest pause of a graceful restart, ms", run.longest_ms(begin, now_ms() - 2_000))
            two.start()
    run.expect(run.measured["longest pause after kill -9, ms"] < _TAKEN_OVER_MS, "partitions moved too slowly")
    run.expect(run.measured["longest pause of a graceful restart, ms"] < _RESTARTED_MS, "a restart took too long")
