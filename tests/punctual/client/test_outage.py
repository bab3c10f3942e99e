"""A broker that does not answer: the caller gets an error in time, and no call hangs."""

import gc
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from app.dev.broker import Broker
from punctual import DelayClient, KafkaUnreachableError, NotAcknowledgedError
from punctual.client.producer import Producer
from tests.harness.pace import Stopwatch
from tests.harness.waiting import eventually
from tests.punctual.client.conftest import Installation

SOON = timedelta(minutes=15)

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture(scope="module")
def own_broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@contextmanager
def paused(broker: Broker) -> Iterator[None]:
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        eventually(
            lambda: " T " in Path(f"/proc/{broker.pid}/stat").read_text("utf-8"),
            what="the broker to stand still",
        )
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


async def test_a_silent_broker_is_an_unknown_outcome_and_closing_does_not_hang(own_broker: Broker) -> None:
    installation = Installation(own_broker.bootstrap)
    installation.create()
    client = DelayClient(installation.bootstrap, app_id=installation.app_id, ack_timeout=timedelta(seconds=3))
    await client.start()
    with paused(own_broker):
        with Stopwatch() as watch:
            with pytest.raises(NotAcknowledgedError, match=r"no answer within 3 s.*again with the same id"):
                await client.delay("orders", b"v", after=SOON, id="r-1")
            await client.aclose()
        assert watch.seconds < 15

    async with client:
        assert await client.delay("orders", b"v", after=SOON, id="r-1") == "r-1"


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
async def test_connecting_to_a_silent_broker_ends_too(own_broker: Broker) -> None:
    with paused(own_broker), pytest.raises(KafkaUnreachableError, match="no answer within 1 s"):
        await DelayClient(own_broker.bootstrap, ack_timeout=timedelta(seconds=1)).start()
    gc.collect()  # aiokafka leaves an unfinished connection to the collector, which warns about it


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_broker_that_falls_silent_while_a_client_connects_is_unreachable(
    own_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client looked for the topic 20 times as long as aiokafka's limit of 40 s, and then reported it missing."""
    connect, silence = Producer.open, ExitStack()

    async def connect_and_silence(*arguments: Any) -> Producer:
        producer = await connect(*arguments)
        silence.enter_context(paused(own_broker))
        return producer

    monkeypatch.setattr(Producer, "open", connect_and_silence)
    with silence, pytest.raises(KafkaUnreachableError, match="no answer within 1 s"):
        await DelayClient(own_broker.bootstrap, app_id="nobody", ack_timeout=timedelta(seconds=1)).start()
    gc.collect()
