"""A worker's clock jumps and drifts."""

import time

from tests.chaos.run import Run
from tests.chaos.scenario import scenario
from tests.harness.kafka import now_ms, read
from tests.harness.waiting import eventually
from tests.harness.worker import Worker

#: Up to a second a clock that is fast passes for an inaccurate one, and is only an alarm; the brokers' is measured by
#: records, and no better than these travel.
_FAST_MS = 1_200
_MINUTE_MS = 60_000
#: By then the worker has noticed a jump, and deliveries on their way have arrived.
_NOTICED_S = 1.0


@scenario("a clock that jumps ahead and back by 0.8 s to an hour, drifts, and is wrong at a start", ci=())
def clock(run: Run) -> None:
    run.fast_ms = _FAST_MS
    worker = run.worker("one", clock=True).start()
    worker.wait_ready()
    with run.traffic(150):
        for _ in run.rounds(1, 2):
            time.sleep(2)
            jump(run, worker, 800)
            stands_still(run, worker, 1_500)
            jump(run, worker, -3 * _MINUTE_MS)
            stands_still(run, worker, 60 * _MINUTE_MS)
            drift(run, worker)
            for wrong in (60 * _MINUTE_MS, -10 * _MINUTE_MS):
                wrong_start(run, worker, wrong)


def jump(run: Run, worker: Worker, by_ms: int) -> None:
    """Shift the clock for a few seconds; the verdict checks that no message is early."""
    worker.shift_clock(by_ms)
    run.did(f"jumps by {by_ms / 1000:+g} s")
    time.sleep(3)
    put_right(run, worker)


def stands_still(run: Run, worker: Worker, by_ms: int) -> None:
    """Put the clock ahead by more than a second: the worker delivers no message until it is right again."""
    worker.shift_clock(by_ms)
    run.did(f"jumps by {by_ms / 1000:+g} s")
    time.sleep(_NOTICED_S)
    begin = now_ms()
    time.sleep(2)
    run.expect(not delivered(run, begin), f"messages were delivered with a clock {by_ms} ms fast")
    put_right(run, worker)


def drift(run: Run, worker: Worker) -> None:
    """Let the clock run ahead little by little, to three seconds."""
    for offset in range(0, 3_001, 50):
        worker.shift_clock(offset)
        time.sleep(0.03)
    run.did("drifts")
    time.sleep(_NOTICED_S)
    begin = now_ms()
    time.sleep(1)
    run.expect(not delivered(run, begin), "messages were delivered with a clock that had drifted ahead")
    put_right(run, worker)


def wrong_start(run: Run, worker: Worker, by_ms: int) -> None:
    """Kill the worker and start it with a wrong clock, then put it right."""
    run.kill(worker)
    worker.shift_clock(by_ms)
    worker.start().wait_ready()
    run.did("starts with a wrong clock")
    time.sleep(1)
    put_right(run, worker)


def put_right(run: Run, worker: Worker) -> None:
    """Put the clock right, and measure how long it takes until something is delivered."""
    begin = now_ms()
    worker.shift_clock(0)
    took = eventually(lambda: delivered(run, begin), what="a delivery after the clock was put right")
    run.measure("delivering_again_ms", int(took * 1000))


def delivered(run: Run, begin_ms: int) -> bool:
    """Return whether anything has been delivered since."""
    return any(record.timestamp_ms >= begin_ms for out in run.outs for record in read(run.bootstrap, out))
