"""Pending messages found on a real Kafka, on two workers with half the messages each."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from punctual.cli import main
from punctual.cli.exits import Exit
from tests.harness.kafka import now_ms
from tests.harness.waiting import LIMIT_S, ask_until, eventually
from tests.harness.worker import Worker, await_sharing
from tests.integration.conftest import Run
from tests.integration.installation import Installation

pytestmark = pytest.mark.core

COUNT = 500
HOUR_MS = 3_600_000
#: A killed worker keeps its partitions until a test has searched them.
SETTINGS = {"DELAY_WEB_SECRET": "between us and nobody else", "DELAY_SESSION_TIMEOUT": "PT60S"}


def ask(worker: Worker, path: str, **query: object) -> tuple[int, Any]:
    """Ask a worker; return the status and the answer."""
    url = f"{worker.url}/api/v1{path}?{urllib.parse.urlencode(query)}"
    try:
        with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:  # noqa: S310 - our own worker
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def ask_whole(worker: Worker, path: str, **query: object) -> tuple[int, Any]:
    """Ask a worker until its answer is of all partitions: a rebalance can come at any time, and a scan be cut short."""

    def whole(said: tuple[int, Any]) -> bool:
        status, answer = said
        more = answer.get("next") is not None  # a page that is not the last one is never called complete
        return (
            status != HTTPStatus.SERVICE_UNAVAILABLE
            and not answer.get("missing")
            and (more or answer.get("complete", True))
        )

    return ask_until(lambda: ask(worker, path, **query), whole, f"an answer of all partitions to {path}")


def pages(worker: Worker, limit: int, **query: object) -> list[dict[str, Any]]:
    """Page through everything that fits."""
    found, more = list[dict[str, Any]](), dict[str, object]()
    while True:
        status, page = ask_whole(worker, "/messages", limit=limit, **query, **more)
        assert status == 200, page
        found += page["rows"]
        if page["next"] is None:
            assert page["complete"]
            return found
        more = {"cursor": page["next"]}


@pytest.fixture(scope="module")
def base() -> int:
    return now_ms() + HOUR_MS


@pytest.fixture(scope="module")
def installation(run: Run) -> Iterator[Installation]:
    """An installation whose workers show each other a secret."""
    with run("search", env=lambda _: SETTINGS) as made:
        yield made


@pytest.fixture(scope="module")
def two(installation: Installation, base: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Worker]]:
    """Two workers with COUNT messages, one a second, every fifth for the second destination."""
    path = tmp_path_factory.mktemp("search") / "second"
    with Worker(installation.bootstrap, installation.app_id, path, env=installation.worker.env) as second:
        second.start().wait_ready()
        await_sharing(installation.worker, second)
        topics = [installation.topic(), installation.topic()]
        for number in range(COUNT):
            headers = {
                "delay-id": f"order-{number}", "delay-at": str(base + number * 1_000),
                "delay-to": topics[number % 5 == 0], "tenant": f"t{number % 7}",
            }  # fmt: skip
            installation.requests.send(headers, b"customer-%d" % (number % 3), b'{"n": %d}' % number)
        installation.requests.flush()
        ask_until(
            lambda: ask_whole(second, "/messages/count")[1], lambda said: said["matching"] == COUNT, "all messages"
        )
        yield [installation.worker, second]


def test_every_worker_shows_all_in_one_order(two: list[Worker]) -> None:
    for worker, limit in zip(two, (50, 333), strict=True):
        rows = pages(worker, limit)
        assert [row["id"] for row in rows] == [f"order-{number}" for number in range(COUNT)]
        assert len({row["partition"] for row in rows}) > 1


@pytest.mark.parametrize("path", ["messages", "count", "message", "timeline"])
def test_the_api_between_workers_is_closed_to_others(two: list[Worker], path: str) -> None:
    status, answer = ask(two[0], f"/local/{path}", id="order-1", at=now_ms())
    assert status == 401
    assert "DELAY_WEB_SECRET" in answer["detail"]


def test_filters_are_composed(two: list[Worker], base: int) -> None:
    rows = pages(two[0], 10, header="tenant:t3", key="customer-1", due_from=base + 100_000)
    expected = [n for n in range(100, COUNT) if n % 7 == 3 and n % 3 == 1]
    assert [row["id"] for row in rows] == [f"order-{number}" for number in expected]
    to = rows[0]["to"]
    assert ask_whole(two[1], "/messages/count", to=to)[1]["matching"] in (COUNT // 5, COUNT - COUNT // 5)


def test_a_message_is_found_by_its_id_on_any_worker(two: list[Worker], base: int) -> None:
    for worker in two:
        for number in range(8):
            status, row = ask_whole(worker, f"/messages/order-{number}")
            assert status == 200
            assert row["due_ms"] == base + number * 1_000
            assert row["value"] == f'{{"n": {number}}}'
            assert row["headers"] == [["tenant", f"t{number}" if number < 7 else "t0"]]
        status, problem = ask_whole(worker, "/messages/nobody")
        assert (status, problem["type"]) == (404, "/problems/unknown-message")
        assert problem["detail"] == "No message with the id 'nobody' is pending."


def test_the_timeline_of_all_workers_adds_up(two: list[Worker], base: int) -> None:
    for worker in two:
        status, whole = ask_whole(worker, "/timeline")
        assert status == 200, whole
        assert (sum(bucket["total"] for bucket in whole["buckets"]), whole["overdue"]) == (COUNT, 0)
        assert all(sum(bucket["by"].values()) == bucket["total"] for bucket in whole["buckets"])
        edges = [bucket["to_ms"] for bucket in whole["buckets"][:-1]]
        assert edges == [bucket["from_ms"] for bucket in whole["buckets"][1:]]
        _, finer = ask_whole(worker, "/timeline", **{"from": base, "to": base + 100_000, "step": 10_000})
        assert [bucket["total"] for bucket in finer["buckets"]] == [10] * 10
        assert {tuple(sorted(bucket["by"].values())) for bucket in finer["buckets"]} == {(2, 8)}


def test_paging_is_stable_while_messages_come_and_go(two: list[Worker], installation: Installation, base: int) -> None:
    _, first = ask_whole(two[0], "/messages", limit=100)
    installation.requests.cancel("order-50")
    installation.requests.schedule("late-comer", base - 1, first["rows"][1]["to"])
    installation.requests.flush()
    eventually(lambda: ask_whole(two[0], "/messages/order-50")[0] == 404)
    eventually(lambda: ask_whole(two[0], "/messages/late-comer")[0] == 200)
    _, second = ask_whole(two[0], "/messages", limit=100, cursor=first["next"])
    assert [row["id"] for row in second["rows"]] == [f"order-{number}" for number in range(100, 200)]
    installation.requests.cancel("late-comer")
    installation.requests.schedule("order-50", base + 50_000, first["rows"][1]["to"])
    installation.requests.flush()
    eventually(lambda: ask_whole(two[0], "/messages/late-comer")[0] == 404)
    eventually(lambda: ask_whole(two[0], "/messages/count")[1]["matching"] == COUNT)


@pytest.mark.parametrize("query", [{"from": "1"}, {"step": "5"}, {"from": "9", "to": "1"}, {"from": "x", "to": "y"}])
def test_a_nonsensical_timeline_is_answered_with_a_sentence(two: list[Worker], query: dict[str, str]) -> None:
    status, answer = ask(two[0], "/timeline", **query)
    assert status == 400
    assert len(answer["detail"].split()) > 3


@pytest.mark.parametrize(
    "query", [{"due_from": "soon"}, {"limit": "0"}, {"limit": "many"}, {"cursor": "x"}, {"limit": "1001"}]
)
def test_nonsense_is_answered_with_a_sentence(two: list[Worker], query: dict[str, str]) -> None:
    status, answer = ask(two[0], "/messages", **query)
    assert status == 400
    assert next(iter(query)) in answer["detail"] or "cursor" in answer["detail"]


@pytest.mark.slow
def test_messages_of_a_killed_worker_are_reported_as_missing_until_it_is_back(
    two: list[Worker], capsys: pytest.CaptureFixture[str]
) -> None:
    one, second = two
    _, page = ask_whole(one, "/messages", limit=10)
    gone = second.assigned
    seen = [row["id"] for row in page["rows"]]
    second.kill()
    while page["next"] is not None:
        _, page = ask(one, "/messages", limit=100, cursor=page["next"])
        seen += [row["id"] for row in page["rows"]]
    missed = page["missed"]
    assert missed is not None
    _, page = ask(one, "/messages", limit=1_000)
    assert not page["complete"]
    told = [number for missing in page["missing"] for number in missing["partitions"]]
    assert sorted(told) == sorted(gone)
    assert {missing["worker"] for missing in page["missing"]} == {second.url}
    assert 0 < len(page["rows"]) < COUNT
    assert main.run("list", ["--url", one.url, "--limit", "0", "--format", "json"]) == Exit.INCOMPLETE
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == len(page["rows"])
    assert f"no data from {len(gone)} partitions ({', '.join(map(str, sorted(gone)))}): {second.url}: " in said.err
    second.start().wait_ready()
    assert len(pages(one, 1_000)) == COUNT
    while missed is not None:
        _, page = ask_whole(one, "/messages", limit=100, cursor=missed)
        seen += [row["id"] for row in page["rows"]]
        missed = page["next"] or page["missed"]
    assert len(seen) == len(set(seen)) == COUNT


def test_the_scanner_is_gone_with_its_worker(two: list[Worker]) -> None:
    ask_whole(two[1], "/messages")
    directory = Path(two[1].data) / "scanner"
    assert directory.is_dir()
    two[1].stop()
    assert not directory.exists()
    two[1].start().wait_ready()
