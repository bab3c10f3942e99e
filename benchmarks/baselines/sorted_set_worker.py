"""The usual worker of a sorted set: requests go in with ZADD, due messages come out by polling.

`python -m benchmarks.baselines.sorted_set_worker BOOTSTRAP GROUP REQUESTS DESTINATION PORT`. Ends when it is killed.
"""

import sys
import time
from typing import Any

import msgspec
import redis
from confluent_kafka import Consumer, Producer

_SET = "delayed"
_BATCH = 1_000
#: Usual are a second or a tenth of one; this is as often as Streams' punctuator looks.
_EVERY_S = 0.01


def main() -> None:
    """Take requests into the sorted set, and deliver due messages, until killed."""
    bootstrap, group, requests, destination, port = sys.argv[1:]
    usual = {"enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **usual})
    consumer.subscribe([requests])
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 1})
    store = redis.Redis(port=int(port))
    while True:
        began = time.monotonic()
        requests_taken = _take(consumer, store)
        messages_delivered = _deliver(producer, store, destination)
        if requests_taken < _BATCH and messages_delivered < _BATCH:
            time.sleep(max(0.0, _EVERY_S - (time.monotonic() - began)))


def _take(consumer: Consumer, store: "redis.Redis") -> int:
    """Put requests into the set, then commit their offsets; return how many."""
    messages = [message for message in consumer.consume(_BATCH, 0) if not message.error()]
    if messages:
        rows = {}
        for message in messages:
            due = dict(message.headers())["delay-at"]
            rows[msgspec.msgpack.encode((due, message.key(), message.value()))] = int(due)
        store.zadd(_SET, rows)
        consumer.commit(asynchronous=True)
    return len(messages)


def _deliver(producer: Producer, store: "redis.Redis", destination: str) -> int:
    """Send due messages, and remove them once Kafka has them; return how many."""
    rows: Any = store.zrangebyscore(_SET, "-inf", time.time_ns() // 1_000_000, start=0, num=_BATCH)
    for row in rows:
        due, key, value = msgspec.msgpack.decode(row)
        producer.produce(destination, value, key, headers=[("delay-due", due)])
    if rows:
        producer.flush()
        store.zrem(_SET, *rows)
    return len(rows)


if __name__ == "__main__":
    main()
