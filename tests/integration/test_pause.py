"""A paused destination gets no messages, whatever happens to workers, and all in order when it is resumed."""

import asyncio
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from punctual import DelayClient
from tests.harness.kafka import now_ms, read
from tests.harness.pace import usual_ms
from tests.harness.waiting import crowd, eventually
from tests.harness.worker import Worker, await_sharing
from tests.integration.conftest import Run
from tests.integration.installation import PARTITIONS, Installation

MESSAGES = 200
#: A paused destination gets no message for this time: due loops check every few milliseconds.
QUIET_S = 1.5


@pytest.fixture(scope="module", params=[pytest.param("at_least_once", marks=pytest.mark.core), "exactly_once"])
def installation(run: Run, request: pytest.FixtureRequest) -> Iterator[Installation]:
    guarantee = {"DELAY_GUARANTEE": request.param}
    with run(f"pause-{request.param.replace('_', '-')}", env=lambda _: guarantee) as made:
        yield made


def say(installation: Installation, to: str, **said: Any) -> None:
    """Write a control record; without fields, a tombstone."""
    value = json.dumps(said).encode() if said else None
    installation.requests.send({}, to.encode(), value, topic=f"{installation.app_id}-controls")
    installation.requests.flush()


def await_paused(installation: Installation, to: str) -> None:
    """Wait until the worker knows that a destination is paused."""
    paused = "delay_destination_paused"
    eventually(lambda: installation.worker.metric(paused, destination=to), what=f"the pause of {to}")


def waiting(installation: Installation, to: str) -> bool:
    """Whether a partition has reported a message that waits because the destination is paused."""
    return any(to in record.get("paused", {}) for record in installation.progress().values())


def schedule(installation: Installation, to: str) -> dict[int, list[bytes]]:
    """Send messages that are due within two seconds, out of order; return them by partition as they must come."""
    begin, asked = now_ms() + 500, dict[int, list[tuple[int, int, bytes]]]()
    for number in range(MESSAGES):
        due, partition, value = begin + (number * 7919) % 2_000, number % PARTITIONS, b"%d" % number
        headers = {"delay-to": to, "delay-at": str(due), "delay-id": f"{to}-{number}"}
        id_partition = installation.new_id(partition)  # an id that lives where the request goes
        headers["delay-id"] = id_partition
        installation.requests.send(headers, b"k", value, partition=partition)
        asked.setdefault(partition, []).append((due, number, value))
    installation.requests.flush()
    return {partition: [value for _, _, value in sorted(rows)] for partition, rows in asked.items()}


def test_it_is_held_across_kill_and_rebalance_and_comes_in_order(installation: Installation, tmp_path: Path) -> None:
    to, beside = installation.topic(), installation.topic()
    say(installation, to, paused=True, reason="the shop is closed", by="Ann")
    await_paused(installation, to)
    asked = schedule(installation, to)
    eventually(lambda: waiting(installation, to), what="waiting rows")
    cancelled = installation.new_id(0)
    installation.requests.schedule(cancelled, now_ms() - 100, to, b"cancelled")
    installation.requests.flush()
    installation.await_event("accepted", cancelled)

    installation.worker.kill()
    installation.worker.start().wait_ready()
    with Worker(
        installation.bootstrap,
        installation.app_id,
        tmp_path / "second",
        partitions=PARTITIONS,
        env=installation.worker.env,
    ) as second:
        second.start().wait_ready()
        await_sharing(installation.worker, second)
        installation.requests.cancel(cancelled)
        for number in range(PARTITIONS):  # each partition goes on delivering to other destinations
            installation.requests.send({"delay-to": beside, "delay-after": "0"}, b"", b"", partition=number)
        installation.requests.flush()
        installation.wait_for(beside, PARTITIONS)
        installation.await_event("cancelled", cancelled)
        time.sleep(QUIET_S)
        assert not list(read(installation.bootstrap, to))
        eventually(lambda: not any(record["overdue"] for record in installation.progress().values()), what="no alarm")
        second.kill()

    say(installation, to)
    records = installation.wait_for(to, MESSAGES)
    values = [record.value for record in records]
    assert len(values) == MESSAGES
    for rows in asked.values():
        mine = set(rows)
        assert [value for value in values if value in mine] == rows


def test_a_pause_and_its_end_come_within_a_second(installation: Installation) -> None:
    to = installation.topic()

    def send(begin_ms: int, count: int) -> None:
        """Ask for messages that are due 10 ms apart."""
        for number in range(count):
            headers = {"delay-to": to, "delay-at": str(begin_ms + 10 * number)}
            installation.requests.send(headers, b"%d" % number, b"", partition=number % PARTITIONS)
        installation.requests.flush()

    send(now_ms() + 500, 200)
    installation.wait_for(to, 50)

    async def pause() -> tuple[int, int]:
        async with DelayClient(installation.bootstrap, app_id=installation.app_id) as client:
            await client.pause(to, reason="a test")
            paused = now_ms()
            await asyncio.to_thread(send, paused, 400)
            await asyncio.sleep(2.5)
            await client.resume(to)
            return paused, now_ms()

    paused, resumed = asyncio.run(pause())
    records = installation.wait_for(to, 600)
    times = sorted(record.timestamp_ms for record in records)
    assert len(times) == 600
    assert not [at - paused for at in times if at < resumed - 50 and usual_ms(paused, at) > 1_000]
    assert [at for at in times if resumed <= at and usual_ms(resumed, at) < 1_000]


def test_a_pause_ends_by_itself(installation: Installation) -> None:
    to = installation.topic()
    until = datetime.now(UTC) + timedelta(seconds=4 * crowd())
    end = until.isoformat(timespec="milliseconds")
    say(installation, to, paused=True, until=end, reason="for a while", colour="red")
    await_paused(installation, to)
    assert datetime.now(UTC) < until
    for number in range(20):
        headers = {"delay-to": to, "delay-after": "0"}
        installation.requests.send(headers, b"%d" % number, b"", partition=number % PARTITIONS)
    installation.requests.flush()

    records = installation.wait_for(to, 20)
    until_ms = round(until.timestamp() * 1000)
    assert min(record.timestamp_ms for record in records) >= until_ms - 1
    assert max(usual_ms(until_ms, record.timestamp_ms) for record in records) < 2_000


def test_nonsense_on_the_control_topic_is_passed_over(installation: Installation) -> None:
    to, topic = installation.topic(), f"{installation.app_id}-controls"
    for value in (b"{", b'{"paused": 5}', b'{"rate": "fast"}', b"\xff", b"[" * 50_000):
        installation.requests.send({}, to.encode(), value, topic=topic)
    installation.requests.send({"delay-to": to, "delay-after": "0"}, b"", b"")
    installation.requests.flush()
    installation.wait_for(to, 1)
    eventually(lambda: installation.worker.metric("delay_foreign_records_total", topic=topic) >= 5, what="counted")

    assert installation.worker.log.count(f"{topic}-0-") == 1
    assert installation.worker.alive
