"""Messages due beyond the horizon leave the worker and come back; the test acts as the cold tier."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from punctual.contract.home import home_partition
from tests.harness.account import Account
from tests.harness.kafka import Record, now_ms, read
from tests.harness.waiting import ask_until
from tests.integration.conftest import Run
from tests.integration.installation import PARTITIONS, Installation, running

HORIZON = {"DELAY_HORIZON": "PT1M", "DELAY_DEDUPE_WINDOW": "PT10M"}
FAR_MS = 3_600_000


@pytest.fixture(scope="module", params=["at_least_once", pytest.param("exactly_once", marks=pytest.mark.core)])
def installation(run: Run, request: pytest.FixtureRequest) -> Iterator[Installation]:
    """An installation with a horizon, one with each guarantee."""
    with run("cold", env=lambda _: {**HORIZON, "DELAY_GUARANTEE": request.param}) as made:
        yield made


def asked(id_: str, due_ms: int, to: str) -> list[tuple[str, bytes | None]]:
    """Return the headers of a request."""
    return [("delay-id", id_.encode()), ("delay-at", b"%d" % due_ms), ("delay-to", to.encode())]


def cold(installation: Installation, *ids: str) -> list[Record]:
    """Return the records of the `ids` on the cold topic, each id's in order."""
    records = list(read(installation.bootstrap, f"{installation.app_id}-cold"))
    assert all(record.partition == home_partition(record.header("delay-id"), (), PARTITIONS) for record in records)
    return [record for id_ in ids for record in records if record.header("delay-id") == id_]


def send_back(installation: Installation, parked: Record, due_ms: int, by: Record) -> None:
    """Send a parked message back, as `by`, the last record about its id, has left it."""
    aside = ("delay-op", "delay-at", "delay-source", "delay-parked", "delay-epoch")
    said = [(name, value) for name, value in parked.headers if name not in aside]
    said.append(("delay-at", str(due_ms).encode()))
    said.append(("delay-source", by.header("delay-source").encode()))
    said.append(("delay-parked", f"{by.header('delay-parked')},{now_ms()}".encode()))
    installation.requests.send(said, parked.key, parked.value, partition=parked.partition)


def test_a_far_message_is_parked_and_comes_back_unchanged(installation: Installation) -> None:
    to, due = installation.topic(), now_ms() + FAR_MS
    ids = [installation.new_id() for _ in range(20)]
    for number, id_ in enumerate(ids):  # wherever their homes are
        users = [("b", b"\xff"), ("a", None), ("b", b"2")]
        said = [users[0], *asked(id_, due, to), *users[1:]]
        installation.requests.send(said, b"k", id_.encode(), partition=number % PARTITIONS)
        installation.requests.command("deliver-now", id_, partition=number % PARTITIONS)
    installation.requests.flush()
    installation.await_event("deferred", *ids)

    assert [event["event"] for event in installation.events(ids[0])] == ["accepted", "parked", "deferred"]
    records = ask_until(lambda: cold(installation, *ids), lambda found: len(found) == 2 * len(ids), "both of each")
    for parked, touch in zip(records[::2], records[1::2], strict=True):
        assert parked.header("delay-at") == str(due)
        assert (touch.key, touch.value, touch.header("delay-op")) == (None, None, "deliver-now")
        send_back(installation, parked, int(touch.header("delay-at")), touch)
        send_back(installation, parked, int(touch.header("delay-at")), touch)
    installation.requests.flush()

    delivered = {record.value: record for record in installation.wait_for(to, len(ids))}
    assert set(delivered) == {id_.encode() for id_ in ids}
    assert all(record.key == b"k" for record in delivered.values())
    assert all(record.headers[:3] == [("b", b"\xff"), ("a", None), ("b", b"2")] for record in delivered.values())
    told = installation.await_event("duplicate", *ids)
    assert all("reason" not in event for event in told.values())
    installation.await_event("delivered", *ids)
    assert len(list(read(installation.bootstrap, to))) == len(ids)
    for id_ in ids:
        ask_until(
            lambda of=id_: dict(cold(installation, of)[-1].headers),  # type: ignore[misc]
            lambda headers: "delay-to" not in headers,
            f"the record that has the cold tier forget {id_}",
        )


def test_a_message_cancelled_on_its_way_back_is_cancelled(installation: Installation) -> None:
    to, id_ = installation.topic(), installation.new_id()
    installation.requests.schedule(id_, now_ms() + FAR_MS, to)
    installation.requests.flush()
    installation.await_event("parked", id_)
    (parked,) = ask_until(lambda: cold(installation, id_), bool, "the parked message")
    installation.requests.cancel(id_)
    send_back(installation, parked, now_ms(), parked)
    installation.requests.flush()
    installation.await_event("cancelled", id_)

    assert list(read(installation.bootstrap, to)) == []
    account = Account.settled(installation.bootstrap, installation.app_id)
    assert account.endings(id_) == ["parked", "cancelled"]


@pytest.mark.core
def test_without_a_horizon_parked_messages_still_react_to_commands(bootstrap: str, tmp_path: Path) -> None:
    with running(bootstrap, tmp_path, "horizon", env=lambda _: HORIZON) as installation:
        to, id_, other = installation.topic(), installation.new_id(), installation.new_id()
        installation.requests.schedule(id_, now_ms() + FAR_MS, to)
        installation.requests.flush()
        installation.await_event("parked", id_)
        installation.worker.stop()
        installation.worker.env.clear()
        installation.worker.start().wait_ready()
        installation.requests.cancel(id_)
        installation.requests.schedule(other, now_ms() + FAR_MS, to)
        installation.requests.flush()
        installation.await_event("deferred", id_, other)

        records = ask_until(lambda: cold(installation, id_), lambda found: len(found) == 2, "the cancel")
        assert [record.header("delay-op") for record in records] == ["schedule", "cancel"]
        assert [event["event"] for event in installation.events(other)] == ["accepted", "deferred"]
