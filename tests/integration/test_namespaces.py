"""Teams on a real Kafka: each with its input, its namespace and its quota, served by two workers.

QUOTA (300) is the maximum of a team's pending messages. Each of two workers reads within three seconds how many the
other has admitted, on a slow machine within six; at PACE (70) messages a second, half for each worker, that is the
excess.
"""

import os
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from punctual import DelayClient
from punctual.cli import main
from punctual.cli.exits import Exit
from tests.docs.how_to import blocks, run_program
from tests.harness.kafka import Record, now_ms, read
from tests.harness.waiting import LIMIT_S, ask_until, crowd, eventually
from tests.harness.worker import Worker
from tests.integration.conftest import Run
from tests.integration.installation import PARTITIONS, Installation
from tests.integration.test_search import ask

QUOTA, PACE = int(os.environ.get("QUOTA", "300")), int(os.environ.get("PACE", "70"))
BEYOND, ASKED = 3 * PACE, 2 * QUOTA + 100
HOUR_MS = 3_600_000


def teams(app_id: str) -> dict[str, str]:
    """Return the settings of teams: `orders` and `billing`, two with small quotas, and one without an input."""
    names = ("orders", "billing", "paced", "brief")
    return {
        "DELAY_INPUTS": ",".join(f"{app_id}-{name}=native" for name in names),
        "DELAY_NAMESPACES": ",".join(f"{app_id}-{name}={name}" for name in names) + ",gateway",
        "DELAY_QUOTAS": f"orders=messages:{QUOTA},paced=rate:1/s,brief=remembered:20,*=messages:1000000",
        "DELAY_WEB_SECRET": "between us and nobody else",
    }


@pytest.fixture(scope="module")
def installation(run: Run) -> Iterator[Installation]:
    with run("namespaces", env=teams) as made:
        yield made


def said(op: str, id_: str, **more: object) -> dict[str, str]:
    return {"delay-op": op, "delay-id": id_, **{f"delay-{name}": str(value) for name, value in more.items()}}


def fetched(url: str) -> str:
    """Return a worker's answer."""
    with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:  # noqa: S310 - our own worker
        return str(answer.read().decode())


def overview(worker: Worker) -> dict[str, Any]:
    """Return the overview, as soon as the worker has read the others' reports."""
    found: dict[str, Any] = {}

    def there() -> bool:
        status, answer = ask(worker, "/overview")
        found.update(answer)
        return status == 200

    eventually(there, what="the overview")
    return found


def waiting(worker: Worker, namespace: str) -> dict[str, Any]:
    """Return a namespace's row of the overview."""
    return next(row for row in overview(worker)["namespaces"] if row["namespace"] == namespace)


@pytest.mark.core
async def test_a_request_of_one_team_affects_no_message_of_another(installation: Installation) -> None:
    app_id, due, to = installation.app_id, now_ms() + HOUR_MS, installation.topic()
    orders, billing = f"{app_id}-orders", f"{app_id}-billing"
    async with DelayClient(installation.bootstrap, app_id=app_id, requests_topic=orders, namespace="orders") as client:
        ids = [await client.delay(to, b"a", at=_moment(due), id=f"x{number}") for number in range(4)]
        automatic = await client.delay(to, b"a", at=_moment(due))
    assert ids == [f"orders/x{number}" for number in range(4)]
    installation.await_event("accepted", *ids, automatic)
    for id_ in (*ids, *(one.removeprefix("orders/") for one in ids), automatic):
        for op in ("cancel", "reschedule", "deliver-now"):
            headers = said(op, id_, at=now_ms())
            installation.requests.send(headers, partition=0, topic=billing)
        parked = {"delay-parked": f"{due},{due}", "delay-source": automatic}
        attempt = {**said("schedule", id_, to=to, at=now_ms()), **parked}
        installation.requests.send(attempt, partition=0, topic=billing)
    own = said("schedule", "x0", to=to, at=now_ms())
    installation.requests.send(own, partition=1, value=b"b", topic=billing)
    installation.requests.flush()

    [delivered] = installation.wait_for(to, 1)
    assert (delivered.header("delay-id"), delivered.value) == ("billing/x0", b"b")
    rows = ask_until(
        lambda: ask(installation.worker, "/messages", namespace="orders", to=to)[1].get("rows", []),
        lambda rows: len(rows) >= len(ids) + 1,
        "the messages of orders",
    )
    assert {row["id"]: row["due_ms"] for row in rows} == dict.fromkeys([*ids, automatic], due)
    assert ask(installation.worker, "/messages/orders/x0")[1]["id"] == "orders/x0"
    assert "orders/x0" in fetched(f"{installation.worker.url}/messages/orders%2Fx0")
    assert main.run("show", ["orders/x0", "--url", installation.worker.url]) == Exit.DONE
    assert main.run("list", ["--namespace", "orders", "--url", installation.worker.url]) == Exit.DONE
    eventually(
        lambda: ask(installation.worker, "/messages/count", namespace="billing,gateway")[1].get("matching") == 0,
        what="no message of billing and gateway",
    )
    refused = {"billing/orders/x0", "billing/x0", f"billing/{automatic}"}
    eventually(lambda: refused <= _letter_ids(installation, "billing"), what="the dead letters of billing")
    assert not refused & _letter_ids(installation, "orders")
    for id_ in (*ids, automatic):
        installation.requests.cancel(id_)  # an operator's, in full
    installation.requests.flush()
    installation.await_event("cancelled", *ids, automatic)


@pytest.mark.core
def test_the_program_of_the_how_to_runs(installation: Installation, tmp_path: Path) -> None:
    topics = {"orders-delays": f"{installation.app_id}-orders", "orders.open": installation.topic()}
    run_program(blocks("many-teams.md"), installation, tmp_path, **topics)

    installation.await_event("cancelled", "orders/42")


@pytest.mark.core
def test_the_remembered_ids_and_the_series_of_a_team_are_limited(installation: Installation) -> None:
    app_id, to, requests = installation.app_id, installation.topic(), installation.requests
    for number in range(60):
        requests.send(said("cancel", f"c{number}"), topic=f"{app_id}-brief")
    for number in range(4):
        requests.send(said("schedule", f"s{number}", to=to, every="PT1S", misfire="catch-up"), topic=f"{app_id}-paced")
    requests.send(said("schedule", "ages", to=to, after="PT1S", dedupe="P31D"), topic=f"{app_id}-billing")
    requests.flush()

    # Other tests of this file leave dead letters too: what counts is that each of the 60 and `ages` are decided.
    eventually(lambda: _brief_decided(installation) == 60, what="all of c0 to c59 remembered or refused")
    [_ages] = ask_until(lambda: _letters(installation, "not-allowed", "billing-"), bool, what="the dead letter of ages")
    refused = _letters(installation, "quota", "brief-")
    assert 30 <= len(refused) <= 40, "20 of 60 are remembered, plus those that are decided at the same moment"
    assert any("raise the quota (remembered)" in one.header("delay-error") for one in refused)
    eventually(lambda: len(list(read(installation.bootstrap, to))) >= 10, what="occurrences")
    time.sleep(3)
    spans = Counter(record.timestamp_ms // 10_000 for record in read(installation.bootstrap, to))
    # Some of a span may be delivered in the next one. Unlimited, the four series deliver 40.
    assert max(spans.values()) <= 15
    assert waiting(installation.worker, "brief")["remembered"] >= 20
    for number in range(4):
        requests.cancel(f"paced/s{number}")
    requests.flush()
    installation.await_event("cancelled", *(f"paced/s{number}" for number in range(4)))


def test_a_quota_holds_over_two_workers(installation: Installation, tmp_path: Path) -> None:
    app_id, due, to = installation.app_id, now_ms() + HOUR_MS, installation.topic()
    second = Worker(installation.bootstrap, app_id, tmp_path / "second", env=teams(app_id))
    with second:
        second.start().wait_ready()
        eventually(lambda: len({row["worker"] for row in overview(second)["workers"]}) == 2, what="both")
        for number in range(ASKED):
            headers = said("schedule", f"q{number}", to=to, at=due)
            installation.requests.send(headers, partition=number % PARTITIONS, topic=f"{app_id}-orders")
            time.sleep(crowd() / PACE)
        installation.requests.flush()
        eventually(lambda: _settled(installation, ASKED), what="all accepted or refused")
        held = sum(row["messages"] for row in _reported(installation).values())
        assert QUOTA <= held <= QUOTA + BEYOND
        decided = _decided(installation)
        assert _refused(installation) - decided["accepted"] == decided["refused"]
        assert len(decided["refused"]) == ASKED - held

        # The full namespace accepts replacements and commands, and a cancel makes room.
        eventually(lambda: waiting(second, "orders")["messages"] == held, what="reports")
        free = held - QUOTA + 1
        taken = [event["id"] for event in installation.events() if event["event"] == "accepted" and "/q" in event["id"]]
        taken = list(dict.fromkeys(taken))
        for id_ in taken[:free]:
            installation.requests.cancel(id_)
        installation.requests.flush()
        installation.await_event("cancelled", *taken[:free])
        eventually(lambda: waiting(second, "orders")["messages"] == QUOTA - 1, what="room")
        for number, id_ in enumerate((taken[-1].removeprefix("orders/"), "new-0")):
            headers = said("schedule", id_, to=to, at=due)
            installation.requests.send(headers, partition=number, topic=f"{app_id}-orders")
        installation.requests.flush()
        installation.await_event("replaced", taken[-1])
        installation.await_event("accepted", "orders/new-0")
        assert f'delay_namespace_quota_messages{{namespace="orders"}} {QUOTA}.0' in fetched(f"{second.url}/metrics")
    eventually(lambda: waiting(installation.worker, "orders")["messages"] == QUOTA, what="one worker has all")
    for id_ in (*taken, "orders/new-0"):  # other tests need room
        installation.requests.cancel(id_)
    installation.requests.flush()
    eventually(lambda: waiting(installation.worker, "orders")["messages"] == 0, what="the end of all")


def test_pending_messages_are_counted_again_when_the_namespaces_change(installation: Installation) -> None:
    worker, kept = installation.worker, said("schedule", "kept", to=installation.topic(), at=now_ms() + HOUR_MS)
    installation.requests.send(kept, topic=f"{installation.app_id}-orders")
    installation.requests.flush()
    before = ask_until(lambda: waiting(worker, "orders"), lambda found: found["messages"] == 1, "a message")
    worker.stop()
    worker.env["DELAY_NAMESPACES"] = worker.env["DELAY_NAMESPACES"].replace("=orders", "=shop")
    worker.env["DELAY_QUOTAS"] = "*=messages:1"
    worker.start().wait_ready()
    assert waiting(worker, "shop")["messages"] == 0  # ids by name are still those of orders
    worker.stop()
    worker.env.update(teams(installation.app_id))
    worker.start().wait_ready()
    eventually(lambda: waiting(worker, "orders") == before, what="the same as before")
    installation.requests.cancel("orders/kept")
    installation.requests.flush()
    installation.await_event("cancelled", "orders/kept")


def _letter_ids(installation: Installation, namespace: str) -> set[str]:
    """Return the ids of the dead letters that the API finds in a namespace."""
    _, page = ask(installation.worker, "/dead-letters", namespace=namespace, limit=1_000)
    return {row["id"] for row in page.get("rows", [])}


def _moment(at_ms: int) -> Any:
    from punctual.contract.times import moment_of  # noqa: PLC0415 - just here

    return moment_of(at_ms)


def _reported(installation: Installation) -> dict[int, dict[str, int]]:
    return {
        number: told["namespaces"].get("orders", {"messages": 0}) for number, told in installation.progress().items()
    }


def _decided(installation: Installation) -> dict[str, set[str]]:
    """Return the accepted requests of the namespace `orders`, and those refused for its quota.

    A step that a rebalance cuts off may have written events, and its repetition writes them again: the last event
    counts.
    """
    decided: dict[str, set[str]] = {"accepted": set(), "refused": set()}
    last = {
        event["source"]: event["event"]
        for event in installation.events()
        if event["source"].startswith(f"{installation.app_id}-orders-")
        and ((event["event"] == "accepted" and "/q" in event["id"]) or event.get("reason") == "quota")
    }
    for source, event in last.items():
        decided[event].add(source)
    return decided


def _letters(installation: Installation, reason: str, namespace: str) -> list[Record]:
    """Return the dead letters with this reason whose requests came from the topic of one namespace."""
    source = f"{installation.app_id}-{namespace}"
    return [
        letter
        for letter in read(installation.bootstrap, f"{installation.app_id}-dead-letters")
        if letter.header("delay-reason") == reason and letter.header("delay-source").startswith(source)
    ]


def _refused(installation: Installation) -> set[str]:
    """Return the requests of the namespace `orders` with a dead letter for a quota."""
    return {letter.header("delay-source") for letter in _letters(installation, "quota", "orders-")}


def _brief_decided(installation: Installation) -> int:
    """Return how many commands of the namespace `brief` are remembered or refused."""
    return int(waiting(installation.worker, "brief")["remembered"]) + len(_letters(installation, "quota", "brief-"))


def _settled(installation: Installation, count: int) -> bool:
    """Return whether all `count` requests are accepted or refused, and partitions have reported since."""
    decided = _decided(installation)
    reported = sum(row["messages"] for row in _reported(installation).values())
    return sum(map(len, decided.values())) == count and reported == len(decided["accepted"])
