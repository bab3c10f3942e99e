"""What each address answers: the JSON, the page and the headers are public and stay as they are here."""

from collections.abc import AsyncIterator, Callable
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from app.throttle.control import Control
from app.web.overview import Wanted
from app.web.routes import register
from punctual.contract.rate import Rate

if TYPE_CHECKING:
    from app.web.state import Recovery
    from tests.web.conftest import FakeState

NOW_MS = 1_800_000_000_000
#: What is said of a destination that is not held, paused or capped.
UNTHROTTLED = dict.fromkeys(("held_because", "paused", "paced_since_ms", "rate_per_s", "burst"))

Client = TestClient[web.Request, web.Application]
Record = Callable[..., dict[str, Any]]


@pytest.fixture
async def client(state: "FakeState") -> AsyncIterator[Client]:
    web_app = web.Application()
    register(web_app, state)
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
        "queues": [],
        "destinations": [{"destination": "orders", "pending": 10, "held_since_ms": NOW_MS - 900, **UNTHROTTLED}],
        "workers": [
            {
                "worker": "http://127.0.0.1:6066",
                "version": "0.1.0",
                "age_ms": 20,
                "stale": False,
                "pending": 10,
                "partitions": [1],
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
            },
        ],
    }


async def test_partitions_and_destinations_can_be_asked_for_alone(
    client: Client, state: "FakeState", record: Record
) -> None:
    state.report(record(0))
    whole = await (await client.get("/api/v1/overview")).json()
    for part in ("partitions", "destinations"):
        answer = await (await client.get(f"/api/v1/{part}")).json()
        assert answer == {"at_ms": NOW_MS, part: whole[part]}


async def test_what_reports_do_not_name_counts_as_a_sum(client: Client, state: "FakeState", record: Record) -> None:
    state.report(record(0, pending_rest={"destinations": 900, "messages": 1_234}))
    found = await (await client.get("/api/v1/overview")).json()
    assert (found["pending"], found["pending_unnamed"]) == (1_244, 1_234)
    assert [row["destination"] for row in found["destinations"]] == ["orders"]
    assert "1,234 messages more for smaller destinations" in await (await client.get("/")).text()


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
    error = "this worker does not serve partition 1; http://other:6066 was the last to report it"
    assert await elsewhere.json() == {"error": error}
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
    assert await answer.json() == {"ready": False, "error": state.reason, "recovery": [restore]}


async def test_a_ready_worker_says_so(client: Client) -> None:
    answer = await client.get("/health/ready")
    assert (answer.status, await answer.json()) == (200, {"ready": True})


async def test_a_worker_is_ready_before_it_has_read_the_others_but_shows_no_half_sums(
    client: Client, state: "FakeState"
) -> None:
    state.reader.caught_up.clear()
    assert (await client.get("/health/ready")).status == 200
    answer = await client.get("/api/v1/overview")
    assert (answer.status, (await answer.json())["error"]) == (503, "reading what the other workers have reported")


async def test_a_worker_is_alive_whatever_it_waits_for(client: Client, state: "FakeState") -> None:
    state.reason = "restoring"
    answer = await client.get("/health/live")
    assert (answer.status, await answer.json()) == (200, {"live": True})


async def test_an_unknown_api_address_is_a_404_in_json(client: Client) -> None:
    answer = await client.get("/api/v1/nothing")
    assert (answer.status, answer.content_type) == (404, "application/json")
    assert "GET /api/v1/nothing" in (await answer.json())["error"]


async def test_a_wrong_method_is_a_405_in_json_that_names_the_right_ones(client: Client) -> None:
    answer = await client.post("/api/v1/overview")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET,HEAD")
    assert "POST /api/v1/overview" in (await answer.json())["error"]


@pytest.mark.parametrize("path", ["/", "/api/v1/overview", "/api/v1/nothing", "/nothing", "/static/page.js"])
async def test_every_answer_carries_the_security_headers(client: Client, path: str) -> None:
    headers = (await client.get(path)).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"


async def test_numbers_are_never_cached_and_static_files_are(client: Client) -> None:
    assert (await client.get("/")).headers["Cache-Control"] == "no-store"
    assert (await client.get("/api/v1/overview")).headers["Cache-Control"] == "no-store"
    assert "max-age" in (await client.get("/static/page.css")).headers["Cache-Control"]


class Page(HTMLParser):
    """Collects what a page refers to, and fails on what the content security policy would block."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.references: list[str] = []
        self.texts: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert "style" not in given
        assert not [name for name in given if name.startswith("on")]
        assert tag != "script" or given.get("src")
        self.tags.append(tag)
        if tag in ("link", "script", "img"):
            self.references.append(given.get("src") or given.get("href") or "")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


async def test_the_page_shows_the_numbers_and_loads_nothing_from_elsewhere(
    client: Client, state: "FakeState", record: Record
) -> None:
    state.report(record(0, pending={"orders": 1_234_567}, lateness={"5": 1}))
    answer = await client.get("/")
    page = Page(await answer.text())
    assert (answer.status, answer.content_type) == (200, "text/html")
    assert "1,234,567" in page.texts
    assert "in 1 min" in page.texts
    assert "2027-01-15 08:01:00 UTC" in page.texts
    assert "No report yet from partition 1: no worker has taken it so far." in page.texts
    for address in page.references:
        assert address.startswith("/static/")
        assert (await client.get(address)).status == 200


async def test_names_of_any_shape_are_escaped(client: Client, state: "FakeState", record: Record) -> None:
    evil = "<script>alert('1')</script>\"&"
    state.app_id = state.worker_url = state.version = evil
    state.report(
        record(0, pending={evil: 1}, held={evil: 5}, positions={evil: 1}, worker=f"http://{evil}", version=evil)
    )
    page = Page(await (await client.get("/", params={"destination": evil, "sort": evil})).text())
    assert page.tags.count("script") == 1
    assert evil in page.texts
    state.reason = evil
    assert Page(await (await client.get("/")).text()).tags.count("script") == 1


async def test_a_worker_address_that_is_no_web_address_is_not_a_link(
    client: Client, state: "FakeState", record: Record
) -> None:
    state.report(record(0, worker="javascript:alert(1)"))
    assert 'href="javascript' not in await (await client.get("/")).text()


async def test_the_page_of_a_recovering_worker_says_why_and_how_long(client: Client, state: "FakeState") -> None:
    state.reason = "restoring partition 3"
    state.restores = [
        {"partition": 3, "done": 120_000, "total": 1_000_000, "rows_per_s": 220e3, "seconds_left": 4.0},
        {"partition": 4, "done": 0, "total": 0, "rows_per_s": None, "seconds_left": None},
    ]
    answer = await client.get("/")
    page = Page(await answer.text())
    assert (answer.status, answer.headers["Retry-After"]) == (503, "2")
    assert {"Recovering", "Restoring partition 3.", "120,000", "1,000,000", "220,000", "4 s"} <= set(page.texts)


async def test_destinations_can_be_filtered_and_sorted(client: Client, state: "FakeState", record: Record) -> None:
    state.report(record(0, pending={"beta-orders": 1, "Alpha-orders": 2, "emails": 3}))

    async def shown(**query: str) -> list[str]:
        texts = Page(await (await client.get("/", params=query)).text()).texts
        return [text for text in texts if text in ("beta-orders", "Alpha-orders", "emails")]

    assert await shown() == ["emails", "Alpha-orders", "beta-orders"]
    assert await shown(destination="ORDERS", sort="name") == ["Alpha-orders", "beta-orders"]
    assert "No destination has this in its name." in await (await client.get("/?destination=x")).text()


async def test_a_page_of_very_many_destinations_stays_small(client: Client, state: "FakeState", record: Record) -> None:
    state.report(record(0, pending={f"topic-{number}": 1 for number in range(1000)}))
    text = await (await client.get("/")).text()
    assert text.count("topic-") == 200
    assert "800 more are in" in text


async def test_overdue_messages_stand_out(client: Client, state: "FakeState", record: Record) -> None:
    state.report(record(0))
    state.report(record(1))
    assert 'class="warn"' not in await (await client.get("/")).text()
    state.report(record(0, overdue=1))
    assert 'class="warn"' in await (await client.get("/")).text()


async def test_pauses_and_caps_are_shown_and_what_operators_write_is_escaped(
    client: Client, state: "FakeState", record: Record
) -> None:
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
    text = await (await client.get("/")).text()
    assert "&lt;b&gt;closed&lt;/b&gt; (&lt;i&gt;Ann&lt;/i&gt;)" in text
    assert "<td>20/s burst 100</td><td>paced, 9 s ago" in text


async def test_stale_partitions_and_held_destinations_are_announced(
    client: Client, state: "FakeState", record: Record
) -> None:
    state.report(record(0, held={"orders": NOW_MS - 61_000}), appended_ms=NOW_MS - 11_000)
    state.report(record(1), appended_ms=NOW_MS - 12_000)
    texts = "".join(Page(await (await client.get("/")).text()).texts)
    left = "their messages wait until a worker takes them over."
    assert f"No report lately from partitions 0\N{EN DASH}1: {left}" in texts
    elsewhere = "Why: the log of the worker that has them says it."
    assert f"orders does not take messages: the oldest one was due 1 min 1 s ago. {elsewhere}" in texts


async def test_of_another_clusters_destination_the_cluster_and_the_cause_are_named(
    client: Client, state: "FakeState", record: Record
) -> None:
    state.report(record(0, held={"orders@other": NOW_MS - 61_000}))
    state.troubles = {"orders@other": "its brokers do not answer"}
    texts = "".join(Page(await (await client.get("/")).text()).texts)
    since = "the oldest one was due 1 min 1 s ago"
    assert f"orders on cluster other does not take messages: {since}. Why: its brokers do not answer." in texts
