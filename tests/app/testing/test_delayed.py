"""A running Punctual on a simulated clock: the worker's own code decides, and nothing takes time."""

from app.testing import Delayed


def test_a_message_is_delivered_when_it_is_due(delayed: Delayed) -> None:
    delayed.produce({"delay-to": "orders", "delay-after": "PT2H", "delay-id": "7"}, "hello", key="k")

    assert delayed.advance(hours=1, minutes=59, seconds=59) == []
    [record] = delayed.advance(seconds=1)
    assert (record.topic, record.key, record.value) == ("orders", b"k", b"hello")
    assert record.at == delayed.now
