"""What each address answers: the JSON and the headers are public and stay as they are here."""

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from app.engine.reports.state import Wanted
from app.engine.throttle.control import Control
from app.serve.web import guard
from app.serve.web.routes import register
from punctual.contract.rate import Rate

if TYPE_CHECKING:
    from app.engine.reports.state import Recovery
    from tests.app.serve.web.conftest import FakeState

NOW_MS = 1_800_000_000_000
#: The fields of a destination that is not held, paused or rate-limited.
UNTHROTTLED = dict.fromkeys(("held_because", "paused", "paced_since_ms", "rate_per_s", "burst"))

Client = TestClient[web.Request, web.Application]
Record = Callable[..., dict[str, Any]]


@pytest.fixture
async def client(state: "FakeState") -> AsyncIterator[Client]:
    web_app = web.Application()
    register(web_app, state)
    guard.register(web_app, ())
    async with TestClient(TestServer(web_app)) as client:
        yield client


async def test_the_overview_has_exactly_these_fields(client: Client, state: "FakeState", record: Record) -> None:
    state.report(
        record(1, held={"orders": NOW_MS - 900}, lateness={"5": 9, "inf": 1}, retrying=3), appended_ms=NOW_MS - 20
    )
    answer = await client.get("/api/v1/overview")
    assert answer.status == 200
    assert await answer.json() == {
        "app_id": "delay",
        "worker": "http://127.0.0.1:6066",
        "version": "0.1.0",
        "at_ms": NOW_MS,
        "pending": 10,
        "pending_unnamed": 0,
        "overdue": 0,
        "retrying": 3,
        "next_due_ms": NOW_MS + 60_000,
        "lateness": {"count": 10, "p50_ms": 5, "p99_ms": None},
        "partitions_expected": 2,
        "partitions_stale": [],
        "partitions_missing": [0],
        "unconfirmed_since_ms": None,
        "queues": [],
        "namespaces": [],
        "destinations": [{"destination": "orders", "pending": 10, "held_since_ms": NOW_MS - 900, **UNTHROTTLED}],
        "workers": [
            {
                "worker": "http://127.0.0.1:6066",
                "version": "0.1.0",
                "age_ms": 20,
                "stale": False,
                "pending": 10,
                "partitions": [1],
                "held_back": None,
            }
        ],
        "partitions": [
            {
                "partition": 0,
                "state": "missing",
                "worker": None,
                "age_ms": None,
                "pending": None,
                "pending_unnamed": None,
                "overdue": None,
                "next_due_ms": None,
                "fired_to_ms": None,
                "positions": None,
                "unread_since_ms": None,
            },
            {
                "partition": 1,
                "state": "reporting",
                "worker": "http://127.0.0.1:6066",
                "age_ms": 20,
                "pending": 10,
                "pending_unnamed": 0,
                "overdue": 0,
                "next_due_ms": NOW_MS + 60_000,
                "fired_to_ms": NOW_MS - 5,
                "positions": {"delay-requests": 1234},
                "unread_since_ms": None,
            },
        ],
    }


async def test_partitions_and_destinations_can_be_requested_separately(
    client: Client, state: "FakeState", record: Record
) -> None:
    state.report(record(0))
    whole = await (await client.get("/api/v1/overview")).json()
    for part in ("partitions", "destinations"):
        answer = await (await client.get(f"/api/v1/{part}")).json()
        assert answer == {"at_ms": NOW_MS, part: whole[part]}


async def test_messages_of_unnamed_destinations_count_as_a_sum(
    client: Client, state: "FakeState", record: Record
) -> None:
    state.report(record(0, pending_rest={"destinations": 900, "messages": 1_234}))
    found = await (await client.get("/api/v1/overview")).json()
    assert (found["pending"], found["pending_unnamed"]) == (1_244, 1_234)
    assert [row["destination"] for row in found["destinations"]] == ["orders"]


async def test_all_destinations_of_a_partition_are_listed_by_the_worker_that_serves_it(
    client: Client, state: "FakeState", record: Record
) -> None:
    state.report(record(1, worker="http://other:6066"))
    state.waiting[0] = {"few": (1, None), "many": (5, NOW_MS - 1), "some": (1, None)}
    found = await client.get("/api/v1/partitions/0/destinations")
    assert await found.json() == {
        "at_ms": NOW_MS,
        "partition": 0,
        "destinations": [
            {"destination": "many", "pending": 5, "held_since_ms": NOW_MS - 1, **UNTHROTTLED},
            {"destination": "few", "pending": 1, "held_since_ms": None, **UNTHROTTLED},
            {"destination": "some", "pending": 1, "held_since_ms": None, **UNTHROTTLED},
        ],
    }
    elsewhere = await client.get("/api/v1/partitions/1/destinations")
    assert elsewhere.status == 404
    error = "this worker does not serve partition 1; last reported by http://other:6066"
    assert (await elsewhere.json())["detail"] == error
    for wrong in ("x", "-1", "9" * 5_000, "%C2%B2"):
        assert (await client.get(f"/api/v1/partitions/{wrong}/destinations")).status == 404


async def test_big_counts_are_exact_in_json(client: Client, state: "FakeState", record: Record) -> None:
    state.report(record(0, pending={"orders": 2**60 + 1}))
    assert f'"pending":{2**60 + 1}' in await (await client.get("/api/v1/overview")).text()


@pytest.mark.parametrize("path", ["/api/v1/overview", "/api/v1/partitions", "/api/v1/destinations", "/health/ready"])
async def test_until_it_is_ready_a_worker_answers_503_and_why(client: Client, state: "FakeState", path: str) -> None:
    state.reason = "restoring partition 3: 120,000 of 1,000,000 rows, 4 s left"
    restore: Recovery = {"partition": 3, "done": 120_000, "total": 1_000_000, "rows_per_s": 220e3, "seconds_left": 4.0}
    state.restores = [restore]
    answer = await client.get(path)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "2")
    assert await answer.json() == {
        "type": "/problems/not-ready",
        "title": "The worker cannot answer this yet",
        "status": 503,
        "detail": state.reason,
        "ready": False,
        "recovery": [restore],
    }


async def test_a_ready_worker_says_so(client: Client) -> None:
    answer = await client.get("/health/ready")
    assert (answer.status, await answer.json()) == (200, {"ready": True})


async def test_a_worker_that_cannot_work_is_not_ready_and_shows_its_numbers(
    client: Client, state: "FakeState", record: Record
) -> None:
    state.ill, state.unconfirmed = "the brokers have not confirmed a write", NOW_MS - 35_000
    state.report(record(0))
    state.report(record(1, unread=NOW_MS - 12_000, held_back="disk"))
    answer = await client.get("/health/ready")
    assert (answer.status, (await answer.json())["detail"]) == (503, state.ill)
    whole = await (await client.get("/api/v1/overview")).json()
    assert whole["unconfirmed_since_ms"] == NOW_MS - 35_000
    assert [row["unread_since_ms"] for row in whole["partitions"]] == [None, NOW_MS - 12_000]
    assert [row["held_back"] for row in whole["workers"]] == ["disk"]


async def test_a_worker_is_ready_before_it_has_read_the_reports_of_others_but_shows_no_partial_sums(
    client: Client, state: "FakeState"
) -> None:
    state.reader.caught_up.clear()
    assert (await client.get("/health/ready")).status == 200
    answer = await client.get("/api/v1/overview")
    assert (answer.status, (await answer.json())["detail"]) == (503, "reading the reports of the other workers")


async def test_a_worker_is_alive_whatever_it_waits_for(client: Client, state: "FakeState") -> None:
    state.reason = "restoring"
    answer = await client.get("/health/live")
    assert (answer.status, await answer.json()) == (200, {"live": True})


async def test_an_unknown_api_address_is_a_404_in_json(client: Client) -> None:
    answer = await client.get("/api/v1/nothing")
    assert (answer.status, answer.content_type) == (404, "application/problem+json")
    assert "GET /api/v1/nothing" in (await answer.json())["detail"]


async def test_a_wrong_method_is_a_405_in_json_that_names_the_right_ones(client: Client) -> None:
    answer = await client.post("/api/v1/overview")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET,HEAD")
    assert "POST /api/v1/overview" in (await answer.json())["detail"]


@pytest.mark.parametrize("path", ["/api/v1/overview", "/api/v1/nothing", "/nothing", "/metrics"])
async def test_every_answer_carries_the_security_headers(client: Client, path: str) -> None:
    headers = (await client.get(path)).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"


async def test_numbers_are_never_cached(client: Client) -> None:
    assert (await client.get("/api/v1/overview")).headers["Cache-Control"] == "no-store"


async def test_pauses_and_rate_limits_are_in_the_overview(client: Client, state: "FakeState", record: Record) -> None:
    paused = Control(paused=True, reason="<b>closed</b>", by="<i>Ann</i>", until_ms=NOW_MS + 60_000)
    state.wants = Wanted({"orders": paused}, {"sms": Rate(20.0, 100)})
    state.report(record(0, pending={"sms": 2}, paused={"orders": NOW_MS - 5_000}, paced={"sms": NOW_MS - 7_000}))
    state.report(record(1, pending={}, paced={"sms": NOW_MS - 9_000}))

    answer = await client.get("/api/v1/destinations")
    rows = {row["destination"]: row for row in (await answer.json())["destinations"]}
    assert rows["orders"]["paused"] == {
        "reason": "<b>closed</b>",
        "by": "<i>Ann</i>",
        "until_ms": NOW_MS + 60_000,
        "since_ms": NOW_MS - 5_000,
    }
    assert (rows["sms"]["rate_per_s"], rows["sms"]["burst"], rows["sms"]["paced_since_ms"]) == (
        20.0,
        100,
        NOW_MS - 9_000,
    )
    assert rows["sms"]["paused"] is None
