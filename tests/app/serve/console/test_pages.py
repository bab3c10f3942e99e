"""The pages, without a browser: complete HTML, escaped, and only with content that the policy allows."""

import re
import unicodedata
from collections.abc import AsyncIterator, Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from msgspec.structs import replace

from app.engine.reports.state import Wanted
from app.engine.throttle.control import Control
from app.serve.access.caller import Caller, put
from app.serve.actions.job import Job, PartProgress, status_of
from app.serve.console import console, dead_letter_pages, forms, pages
from app.serve.console.pages import templates
from app.serve.dead_letters.dead_letter import DeadLetterFilter
from app.serve.search.filter import Filter, QueryFilter
from app.serve.search.pending import PendingMessage, shown
from app.serve.web import guard, problem
from app.serve.web.answers import as_json
from app.serve.web.routes import register
from punctual.cli import terminal
from punctual.contract.rate import Rate

if TYPE_CHECKING:
    from tests.app.serve.web.conftest import FakeState

NOW_MS = 1_800_000_000_000
PAGES = ("/", "/destinations", "/destinations/orders", "/find", "/new", "/workers")

Client = TestClient[web.Request, web.Application]
Record = Callable[..., dict[str, Any]]


@pytest.fixture
async def client(state: "FakeState") -> AsyncIterator[Client]:
    web_app = web.Application(middlewares=[problem.problems])
    guard.register(web_app, ())
    register(web_app, state)
    console.register(web_app, state)
    async with TestClient(TestServer(web_app)) as client:
        yield client


class Page(HTMLParser):
    """Collects the references of a page, and fails on content that the content security policy would block."""

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
        assert tag not in ("style", "base")
        assert tag != "script" or given.get("src")
        self.tags.append(tag)
        if tag in ("link", "script", "img"):
            self.references.append(given.get("src") or given.get("href") or "")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


async def test_the_page_shows_the_numbers_and_loads_only_from_its_own_site(
    client: Client, state: "FakeState", record: Record
) -> None:
    state.report(record(0, pending={"orders": 1_234_567}, lateness={"5": 1}))
    answer = await client.get("/")
    page = Page(await answer.text())
    assert (answer.status, answer.content_type) == (200, "text/html")
    assert any("1,234,567" in text for text in page.texts)
    assert "in 1 min" in page.texts
    assert "at 08:01:00 UTC" in page.texts
    assert "No report yet from partition 1: no worker serves it." in page.texts
    for address in page.references:
        assert address.startswith("/static/")
        assert (await client.get(address)).status == 200


async def test_names_of_any_shape_are_escaped(client: Client, state: "FakeState", record: Record) -> None:
    evil = "<script>alert('1')</script>\"&"
    state.app_id = state.worker_url = state.version = evil
    state.report(
        record(0, pending={evil: 1}, held={evil: 5}, positions={evil: 1}, worker=f"http://{evil}", version=evil)
    )
    page = Page(await (await client.get("/destinations", params={"destination": evil, "sort": evil})).text())
    assert page.tags.count("script") == 1
    assert evil in page.texts
    state.reason = evil
    assert Page(await (await client.get("/")).text()).tags.count("script") == 1


#: What changes how a page or a terminal shows the text around it: C0, DEL, C1, and directions of writing.
CONTROLS = "\x00\x01\x07\x08\t\n\x1b[31m\x7f\x85\x9b\u061c\u200b\u200e\u2028\u202e\u2066\ufeff\U000e0041"


def controls_in(text: str) -> list[str]:
    return [char for char in text if char not in "\n\t" and unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp")]


async def test_control_characters_of_names_are_shown_as_escapes(
    client: Client, state: "FakeState", record: Record
) -> None:
    evil = f"a{CONTROLS}z"
    state.app_id = state.worker_url = state.version = evil
    row = record(0, pending={evil: 1}, held={evil: 5}, positions={evil: 1}, worker=f"http://{evil}", version=evil)
    state.report(row)
    state.troubles[evil] = evil
    for path in ("/", "/destinations", f"/destinations/{quote(evil)}", "/workers"):
        answer = await client.get(path)
        text = await answer.text()
        assert answer.status == 200
        assert controls_in(text) == [], path
        assert "\\u202e\\u2066" in text, path
    state.reason = evil
    assert controls_in(await (await client.get("/")).text()) == []


async def test_home_says_that_the_verdict_is_without_the_spools_of_gateways(
    client: Client, state: "FakeState", record: Record
) -> None:
    state.report(record(0))
    text = await (await client.get("/")).text()
    assert "This status covers the workers only." in text
    alerts = Path(__file__).parents[4].joinpath("deploy/monitoring/alerts.yaml").read_text("utf-8")
    [named] = re.findall(r"<code>(Punctual\w+)</code>", text)
    assert f"- alert: {named}\n    expr: max by (cluster, namespace, job) (delay_gateway_spool_age_seconds)" in alerts


async def test_a_form_sends_the_text_that_was_typed(client: Client) -> None:
    text = await (await client.get("/find", params={"id_prefix": "a\u202eb", "all": "1"})).text()
    assert 'name="id_prefix" value="a\u202eb"' in text


def test_a_value_keeps_its_lines_and_headers_are_one_line_each() -> None:
    shown = templates().from_string("{{ text|block }}").render(text="a\tb\r\nc\u202ed\x85<")
    assert shown == "a\tb\nc\\u202ed\\x85&lt;"
    row = {"headers": [["a\u202e", "1\ndelay-to: x"], ["b", "2"]]}
    assert dead_letter_pages._lines_of(row) == "a\\u202e: 1\\ndelay-to: x\nb: 2"


async def test_a_worker_address_that_is_not_a_web_address_is_not_a_link(
    client: Client, state: "FakeState", record: Record
) -> None:
    state.report(record(0, worker="javascript:alert(1)"))
    assert 'href="javascript' not in await (await client.get("/workers")).text()


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
        texts = Page(await (await client.get("/destinations", params=query)).text()).texts
        return [text for text in texts if text in ("beta-orders", "Alpha-orders", "emails")]

    assert await shown() == ["emails", "Alpha-orders", "beta-orders"]
    assert await shown(destination="ORDERS", sort="name") == ["Alpha-orders", "beta-orders"]
    assert "No destination name contains this text." in await (await client.get("/destinations?destination=x")).text()


@pytest.mark.parametrize("kind", [Filter, DeadLetterFilter])
def test_the_filter_of_a_form_is_the_text_that_was_typed(kind: type[QueryFilter]) -> None:
    assert forms.filter_of({"id_prefix": "team 1 ", "source": " "}, kind) == {"id_prefix": "team 1 "}


async def test_a_page_of_very_many_destinations_stays_small(client: Client, state: "FakeState", record: Record) -> None:
    state.report(record(0, pending={f"topic-{number}": 1 for number in range(1000)}))
    text = await (await client.get("/destinations")).text()
    assert text.count('href="/destinations/topic-') == 200
    assert "800 more destinations are in" in text


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
    text = await (await client.get("/destinations")).text()
    assert "by &lt;i&gt;Ann&lt;/i&gt; until <time" in text
    assert "</time>: &lt;b&gt;closed&lt;/b&gt;" in text
    assert "20/s, burst 100" in text
    assert "7 s ago" in text


async def test_stale_partitions_and_held_destinations_are_announced(
    client: Client, state: "FakeState", record: Record
) -> None:
    state.report(record(0, held={"orders": NOW_MS - 61_000}), appended_ms=NOW_MS - 11_000)
    state.report(record(1), appended_ms=NOW_MS - 12_000)
    texts = "".join(Page(await (await client.get("/")).text()).texts)
    left = "their messages are not delivered until a worker takes them over."
    assert f"No recent report from partitions 0\N{EN DASH}1: {left}" in texts
    elsewhere = "see the log of the worker that serves it."
    assert f"orders is not accepting messages: {elsewhere} The oldest message was due 1 min 1 s ago." in texts


async def test_a_destination_in_another_cluster_has_the_cluster_and_the_cause(
    client: Client, state: "FakeState", record: Record
) -> None:
    state.report(record(0, held={"orders@other": NOW_MS - 61_000}))
    state.troubles = {"orders@other": "its brokers do not answer"}
    texts = "".join(Page(await (await client.get("/")).text()).texts)
    since = "The oldest message was due 1 min 1 s ago."
    assert f"orders on cluster other is not accepting messages: its brokers do not answer. {since}" in texts


@pytest.mark.parametrize("page", PAGES)
async def test_every_page_is_whole_without_a_script_and_keeps_to_the_policy(
    client: Client, state: "FakeState", record: Record, page: str
) -> None:
    state.report(record(0))
    state.report(record(1))
    answer = await client.get(page)
    seen = Page(await answer.text())
    assert answer.status == 200
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert (seen.tags.count("h1"), seen.tags.count("main")) == (1, 1)
    assert (await client.get("/static/page.css")).headers["Cache-Control"].startswith("public")


async def test_the_verdict_says_that_all_messages_are_on_time(
    client: Client, state: "FakeState", record: Record
) -> None:
    state.report(record(0, pending={"orders": 1_204_311}))
    state.report(record(1, pending={}, next_due=NOW_MS + 3_000))
    texts = " ".join("".join(Page(await (await client.get("/")).text()).texts).split())
    assert "On time. 1,204,311 pending, next in 3 s." in texts


async def test_the_verdict_names_late_messages_and_the_reason(
    client: Client, state: "FakeState", record: Record
) -> None:
    state.troubles = {"emails": "its broker refuses"}
    state.report(record(0, held={"emails": NOW_MS - 240_000}))
    state.report(record(1))
    texts = " ".join("".join(Page(await (await client.get("/")).text()).texts).split())
    assert "Late: emails not accepting messages for 4 min: its broker refuses." in texts


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"held_back": "disk"}, "Late: http://127.0.0.1:6066 stopped accepting requests: free disk space is below"),
        ({"unread": NOW_MS - 35_000}, "Late: Requests in partition 1 have been unread for 35 s, so cancellations"),
        ({"unread": NOW_MS - 5_000}, "On time. 20 pending"),
        ({"paused": {"sms": NOW_MS - 7_200_000}}, "Paused: sms is paused: the oldest message was due 2 h ago"),
        ({"paused": {"sms": NOW_MS - 500}}, "On time. 20 pending"),
    ],
)
async def test_the_verdict_is_not_on_time_while_requests_or_paused_messages_wait(
    client: Client, state: "FakeState", record: Record, changes: dict[str, Any], says: str
) -> None:
    state.report(record(0))
    state.report(record(1, **changes))
    texts = " ".join("".join(Page(await (await client.get("/")).text()).texts).split())
    assert says in texts


async def test_the_verdict_is_not_on_time_while_no_broker_confirms_deliveries(
    client: Client, state: "FakeState", record: Record
) -> None:
    state.unconfirmed = NOW_MS - 35_000
    state.report(record(0))
    state.report(record(1))
    async with client.get("/api/v1/events") as answer:
        line_chart = [(await answer.content.readline()).decode() for _ in range(4)]
    assert '"verdict":"Late: The brokers have not confirmed any write for 35 s' in line_chart[3]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 303),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
async def test_a_form_of_another_site_is_refused(client: Client, headers: dict[str, str], status: int) -> None:
    asked = await client.post(
        "/destinations/orders/rate", data={"per_s": "none"}, headers=headers, allow_redirects=False
    )
    assert asked.status == status


async def test_a_viewer_sees_no_form_that_acts(state: "FakeState", record: Record) -> None:
    @web.middleware
    async def viewer(request: web.Request, handler: Any) -> web.StreamResponse:
        role: Any = request.headers["X-Role"]
        put(request, Caller("ann", role, "a session" if role == "viewer" else ""))
        answer: web.StreamResponse = await handler(request)
        return answer

    web_app = web.Application(middlewares=[viewer])
    register(web_app, state)
    console.register(web_app, state)
    state.report(record(0))
    async with TestClient(TestServer(web_app)) as client:
        for page in ("/new", "/destinations/orders"):
            seen = Page(await (await client.get(page, headers={"X-Role": "viewer"})).text())
            assert "textarea" not in seen.tags
            assert seen.tags.count("form") == 1  # to sign out
            assert ["Sign out" in seen.texts, "Audit" in seen.texts] == [True, False]
            text = await (await client.get(page, headers={"X-Role": "admin"})).text()
            assert f'<form method="post" action="{page}' in text
            assert 'ann <span class="note">admin</span>' in text
            assert ["Sign out" in text, '<a href="/audit"' in text] == [False, True]
        operator = Page(await (await client.get("/destinations/orders", headers={"X-Role": "operator"})).text())
        assert "form" not in operator.tags


@pytest.mark.parametrize(("badge", "over"), [("running", 0), ("stopped", 1), ("limited", 2), ("done", 2)])
async def test_the_page_of_a_job_shows_its_filter_its_outcomes_and_its_partitions(
    state: "FakeState", record: Record, badge: str, over: int
) -> None:
    messages = Filter(to="<orders>", due_to_ms=NOW_MS, within=None)
    job = Job(
        job_id="a/b", at_ms=NOW_MS, by="ann", role="operator", act="deliver-now", filter=messages, counted=5_000,
        ends=[{}, {}], stopped=badge == "stopped",
    )  # fmt: skip
    part = PartProgress(job_id="a/b", partition=0, sent=1_250, outcomes={"forwarded-now": 1_200}, untold=50)
    part = replace(part, limited=badge == "limited")
    parts = [replace(part, partition=number, over=number < over) for number in (0, 1)]

    async def answer(_request: web.Request) -> web.Response:
        return as_json(status_of(job, parts))

    web_app = web.Application()
    register(web_app, state)
    console.register(web_app, state)
    web_app.router.add_get("/api/v1/jobs/{id}", answer)
    for number in (0, 1):
        state.report(record(number))
    async with TestClient(TestServer(web_app)) as client:
        text = await (await client.get("/jobs/a%2Fb")).text()
    page = Page(text)
    words = " ".join(" ".join(page.texts).split())
    assert f"{badge} Deliver now: 2,500 requests sent (max 5,000)" in words
    assert "<orders>" in words
    assert "forwarded now 2,400 No outcome yet 100" in words
    assert f"Partitions {over} of 2 done" in words
    assert ("More messages match than you confirmed" in words) == (badge == "limited")
    assert ('action="/jobs/a%2Fb/stop"' in text) == (badge == "running")
    assert page.tags.count("tr") == 3


async def test_live_events_have_the_verdict(client: Client, state: "FakeState", record: Record) -> None:
    state.report(record(0))
    state.report(record(1))
    async with client.get("/api/v1/events") as answer:
        assert answer.content_type == "text/event-stream"
        line_chart = [(await answer.content.readline()).decode() for _ in range(4)]
    assert line_chart[2] == "event: changed\n"
    assert '"verdict":"On time: 20 pending, next in 1 min"' in line_chart[3]


async def test_a_message_is_shown_while_the_worker_still_reads_the_reports_of_others(state: "FakeState") -> None:
    async def message(_request: web.Request) -> web.Response:
        row = PendingMessage(id="a", partition=0, due_ms=NOW_MS + 60_000, to="orders", source="delay-requests-0-1")
        return as_json({**msgspec.to_builtins(row), "life": [], "looked_back_to_ms": None})

    state.reader.caught_up.clear()
    web_app = web.Application()
    register(web_app, state)
    web_app.router.add_get("/api/v1/messages/{id}", message)
    console.register(web_app, state)
    async with TestClient(TestServer(web_app)) as client:
        assert (await client.get("/find")).status == 503
        answer = await client.get("/messages/a")
        page = Page(await answer.text())

    assert answer.status == 200
    assert {"orders", "in 1 min", "Actions"} <= {text.strip() for text in page.texts}


@pytest.mark.parametrize("value", [b"\0a", b"a\rb", b"a\r\nb", b"\xff", b"x" * 300_000])
def test_a_value_that_a_browser_would_change_is_not_offered(value: bytes) -> None:
    assert dead_letter_pages._editable(msgspec.to_builtins(shown(value))) is None


def test_text_is_offered_as_it_is() -> None:
    assert dead_letter_pages._editable("a\n\tü") == "a\n\tü"


@pytest.mark.parametrize("query", ["from=1", "to=1", "step=1000", "from=²&to=1", "from=1&to=x"])
async def test_a_span_without_one_of_its_ends_is_ignored(
    client: Client, state: "FakeState", record: Record, query: str
) -> None:
    state.report(record(0))
    answer = await client.get(f"/?{query}")
    assert answer.status == 200
    assert "Back to all" not in await answer.text()


async def test_a_form_has_no_more_headers_than_a_message(client: Client) -> None:
    for path in ("/new", "/dead-letters/0-1/resend"):
        given = {"to": "orders", "count": "5", "headers": "\n" * 1_001}
        answer = await client.post(path, data=given, headers={"Sec-Fetch-Site": "same-origin"})
        assert (answer.status, answer.reason) == (400, "a message has at most 1,000 headers")


def test_a_text_of_a_million_lines_costs_no_more_than_its_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    escaped = list[str]()

    def legible(char: str) -> str:
        escaped.append(char)
        return terminal.legible(char)

    monkeypatch.setattr(pages, "legible", legible)
    assert pages._block("\r\n\t" * 1_000_000 + "a<\x9b\u202e\r") == "\n\t" * 1_000_000 + "a&lt;\\x9b\\u202e\\r"
    assert len(escaped) < 10


async def test_a_form_with_an_invalid_time_gets_an_error(client: Client) -> None:
    given = {"act": "cancel", "due_from": "soon", "confirm": "1"}
    answer = await client.post(
        "/find/all", data=given, headers={"Sec-Fetch-Site": "same-origin"}, allow_redirects=False
    )
    assert answer.status == 303
    assert answer.headers["Location"] == "/find/all?due_from=soon&act=cancel"
