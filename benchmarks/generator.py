"""The load generator, a process of its own: sends what an order says, and prints how that went as one line of JSON.

`python -m benchmarks.generator ORDER`, where ORDER is an `Order` in JSON.
"""

import sys
import time
from dataclasses import dataclass

import msgspec
from confluent_kafka import Producer

from benchmarks.clock import now_ms, sleep_until
from benchmarks.plan import Plan
from benchmarks.wording import WORDINGS

_FLUSH_S = 120.0
_POLL_EVERY = 1_000
_NAP_S = 0.002


@dataclass(frozen=True, slots=True)
class Order:
    """Where to send a plan's requests."""

    bootstrap: str
    topic: str
    plan: Plan
    wording: str = "native"
    """One of WORDINGS."""


@dataclass(frozen=True, slots=True)
class Produced:
    """From before the first request to the last acknowledgement, and how far a paced plan fell behind at most."""

    began_ms: int
    ended_ms: int
    behind_ms: int


def produce(order: Order) -> Produced:
    """Send all requests of an order and wait until Kafka has them.

    Raises RuntimeError if Kafka refuses one.
    """
    plan, refused = order.plan, list[str]()
    producer = Producer(
        {
            "bootstrap.servers": order.bootstrap,
            "acks": "all",
            "linger.ms": 5,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
            "partitioner": "murmur2_random",  # as the contract has it: keyed by its id, a request goes to its home
            "error_cb": lambda error: refused.append(str(error)) if error.fatal() else None,
        }
    )
    producer.list_topics(order.topic, timeout=30)
    sleep_until(plan.start_ms)
    began, behind = now_ms(), 0
    for number, due_ms in enumerate(plan.due_times()):
        if plan.paced:
            behind = max(behind, _keep_pace(plan.send_ms(number), producer))
        _send(producer, order, number, due_ms)
        if number % _POLL_EVERY == 0:
            producer.poll(0)
    unacknowledged = producer.flush(_FLUSH_S)
    if unacknowledged or refused:
        msg = f"{unacknowledged} requests are not acknowledged: {refused[:3]}"
        raise RuntimeError(msg)
    return Produced(began, now_ms(), behind)


def _keep_pace(at_ms: int, producer: Producer) -> int:
    """Wait until a message's turn; give by how many milliseconds that is past."""
    while (early := at_ms - now_ms()) > 0:
        producer.poll(0)
        time.sleep(min(early / 1000, _NAP_S))
    return -early


def _send(producer: Producer, order: Order, number: int, due_ms: int) -> None:
    plan = order.plan
    id_ = plan.id(number).encode()
    headers = WORDINGS[order.wording].headers(plan.to, due_ms, id_)
    while True:
        try:
            producer.produce(order.topic, plan.value(number), id_, headers=headers)
        except BufferError:
            producer.poll(0.05)
        else:
            return


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(produce(msgspec.json.decode(sys.argv[1], type=Order))) + b"\n")
