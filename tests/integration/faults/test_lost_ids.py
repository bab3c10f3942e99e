"""Exactly once, a transactional id that is lost stays lost: a real coordinator checks the producer (KIP-360)."""

from collections.abc import Callable

import pytest

from app.kafka import Ack, Batch, Cluster
from app.kafka.transactions.coordinator import Fenced
from app.kafka.transactions.transaction import Transactions
from tests.harness.kafka import now_ms

_TIMES = 3


def batch(value: bytes) -> Batch:
    made = Batch(transactional=True)
    made.append(now_ms(), None, value)
    return made


async def test_an_id_keeps_its_owner(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    cluster = Cluster(bootstrap)
    await cluster.start(topic)
    await cluster.refresh([topic])
    zombie, owner = (Transactions(cluster, topic, (topic, 1)) for _ in range(2))
    await zombie.init()
    await owner.init()

    for _ in range(_TIMES):
        with pytest.raises(Fenced):
            await zombie.init()
        await owner.send([(topic, 0, batch(b"aborted"))])
        await owner.abort()
    [ack] = await owner.send([(topic, 0, batch(b"kept"))])
    await owner.commit()
    await cluster.stop()

    assert isinstance(ack, Ack)
    assert ack.offset == 2 * _TIMES  # each abort is a marker too
