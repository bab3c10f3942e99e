"""Workers are killed while much is due at once: what is on its way then is what may come twice."""

import time

from confluent_kafka import Consumer, TopicPartition

from tests.chaos.run import Run
from tests.chaos.scenario import scenario

#: A worker has 1,000 on their way, and more only where Kafka takes long to answer, as on a busy machine.
_MAY_REPEAT = 2_000
_AWAY_S, _FIRST_S, _POLL_S = 8, 60, 0.002


@scenario(
    "kill -9 in the middle of what fell due while no worker ran",
    guarantees=("at_least_once",),
    ci=("at_least_once",),
    partitions=4,
    fire_batch=500,
    fire_depth=4,
)
def killed_in_a_burst(run: Run) -> None:
    worker = run.worker("one").start()
    worker.wait_ready()
    with run.traffic(run.sizes(1_500, 2_500), lead_ms=(300, 5_000), far_ms=(25_000, 35_000)):
        for _ in run.rounds(2, 20):
            time.sleep(1)
            worker.stop()
            time.sleep(_AWAY_S)
            worker.start()
            _wait_delivering(run)
            worker.kill()
            run.did("kill -9")
            run.may_repeat += _MAY_REPEAT
            worker.start().wait_ready()


def _wait_delivering(run: Run) -> None:
    """Return as soon as something more has come to a destination."""
    consumer = Consumer({"bootstrap.servers": run.bootstrap, "log_level": 0, "group.id": "harness"})
    try:
        places = [TopicPartition(out, number) for out in run.outs for number in range(4)]
        before = [consumer.get_watermark_offsets(place, 10)[1] for place in places]
        until = time.monotonic() + _FIRST_S
        while before == [consumer.get_watermark_offsets(place, 10)[1] for place in places]:
            assert time.monotonic() < until, "nothing is delivered"
            time.sleep(_POLL_S)
    finally:
        consumer.close()
