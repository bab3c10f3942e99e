"""Secrets in URLs are never shown: answers have only the origin of a destination."""

from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from app.kafka.metadata.reader import Stored
from app.serve.access.caller import ROLES
from app.serve.actions.audit import Action, Audit, noted_filter
from app.serve.actions.commands import CommandSender
from app.serve.actions.job import Job, status_of
from app.serve.actions.job_log import JobLog
from app.serve.actions.jobs import Jobs
from app.serve.dead_letters.dead_letter import DeadLetter, DeadLetterFilter
from app.serve.dead_letters.dead_letters import DeadLetterPage, DeadLetters
from app.serve.messages.outcome import SENT, Outcome
from app.serve.search.filter import Filter
from app.serve.search.life import Life
from app.serve.search.page import PendingPage
from app.serve.search.pending import PendingMessage
from app.serve.search.search import Search
from tests.app.serve.access.conftest import SECRET, served, shown
from tests.app.serve.access.test_masks import says

URL: Final = "https://ann:sesame@hooks.example.com/sesame?token=sesame#sesame"
ORIGIN: Final = "https://hooks.example.com"
ROW: Final = PendingMessage(id="x", partition=0, due_ms=1, to=URL, source="s-0-0", on_failure=URL)
DEAD: Final = DeadLetter.of(
    0,
    Stored(
        1,
        1,
        b"k",
        b"v",
        [
            ("delay-to", URL.encode()),
            ("delay-on-failure", URL.encode()),
            ("scheduler-target-topic", URL.encode()),
            ("Content-Type", b"text/plain"),
            ("delay-reason", b"not-allowed"),
        ],
    ),
)
JOB: Final = Job(
    job_id="j",
    at_ms=1,
    by="a",
    role="admin",
    act="cancel",
    filter=Filter(to=URL),
    counted=1,
    ends=[{}],
    dead_letters=DeadLetterFilter(to=URL),
)
#: One of an older version has the URL in its record.
MESSAGE_ACTIONS: Final = [
    Action(act_id="1", at_ms=1, by="a", act="create", target="x", asked={"to": URL, "id": "x"}),
    Action(act_id="2", at_ms=1, by="a", act="cancel all", target="job j", asked={"filter": {"to": URL}}),
]
PLACES: Final = (
    "/api/v1/messages",
    "/api/v1/messages/x",
    "/api/v1/messages/x?whole=1&life=1",
    "/api/v1/dead-letters",
    "/api/v1/dead-letters/0-1",
    "/api/v1/jobs",
    "/api/v1/jobs/j",
    "/api/v1/audit",
)


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """One message, one dead letter, one job and two actions; it records resends and the audit."""
    sent: list[Any] = []

    async def execute(_: Any, *given: Any) -> list[Outcome]:
        sent.append(given)
        return [Outcome(outcome=SENT, sentence="", source="delay-requests-0-0")]

    async def begin(_: Any, *given: Any) -> Action:
        sent.append(given)
        return MESSAGE_ACTIONS[0]

    for kind, name, answer in (
        (Search, "page", PendingPage(rows=[ROW], next=None, looked_at=1, looked_to_ms=None, complete=True, missing=[])),
        (Search, "message", ROW),
        (Search, "life", Life([], None)),
        (DeadLetters, "page", DeadLetterPage(rows=[DEAD], next=None, looked_at=1, looked_back_to_ms=None)),
        (DeadLetters, "one", DEAD),
        (Jobs, "all", [status_of(JOB, [])]),
        (Jobs, "one", status_of(JOB, [])),
        (Audit, "last", MESSAGE_ACTIONS),
        (JobLog, "read", True),
        (JobLog, "resent", None),
    ):
        monkeypatch.setattr(kind, name, says(answer))
    monkeypatch.setattr(CommandSender, "execute", execute)
    monkeypatch.setattr(Audit, "begin", begin)
    monkeypatch.setattr(Audit, "end", says(None))
    return sent


def reveals(body: Any) -> bool:
    """Whether an answer has a secret, as text or in base64."""
    raw = msgspec.json.encode(body) if not isinstance(body, bytes) else body
    return any(secret in raw for secret in (b"sesame", b"c2VzYW1l", b"NlYMtZ", b"zZXNhbW", b"Nlc2FtZ"))


async def test_no_answer_has_more_of_a_url_than_its_origin(users: Path) -> None:
    wrong = []
    async with served(real_below="/api/v1/", DELAY_WEB_USERS_FILE=users, DELAY_WEB_SECRET=SECRET) as client:
        for place in PLACES:
            answer = await client.get(place, headers=shown("admin"))
            body = await answer.json()
            if answer.status != 200 or reveals(body) or ORIGIN not in msgspec.json.encode(body).decode():
                wrong.append((place, answer.status, body))
    assert wrong == []


async def test_the_page_of_a_message_has_only_the_origin_of_a_url() -> None:
    async with served(real_below="/") as client, client.get("/messages/x") as answer:
        text = await answer.text()
    assert answer.status == 200
    assert "sesame" not in text
    assert ORIGIN in text


async def test_a_copy_of_messages_has_their_whole_urls() -> None:
    async with served(real_below="/api/v1/") as client, client.get("/api/v1/messages?whole=1") as answer:
        [row] = (await answer.json())["rows"]
    assert (row["to"], row["on-failure"], "cut" in row) == (URL, URL, False)


async def test_a_dead_letter_is_resent_to_the_whole_url(asked: list[Any]) -> None:
    body = {"headers": {"Content-Type": "application/json"}}
    async with (
        served(real_below="/api/v1/") as client,
        client.post("/api/v1/dead-letters/0-1/resend", json=body) as answer,
    ):
        assert answer.status == 200
    [_, (_, [again])] = asked
    assert dict(again.request.headers)["delay-to"] == URL.encode()


async def test_the_audit_keeps_only_the_origin_of_a_url(asked: list[Any]) -> None:
    body = {"to": "https://hooks.example.com/sesame", "value": "v", "after": 1}
    async with served(real_below="/api/v1/", DELAY_HTTP_DESTINATIONS="https://hooks.example.com/*") as client:
        answer = await client.post("/api/v1/messages", json=body)
        assert answer.status in (200, 202)
    [(*_, noted, _), (_, [record])] = asked
    assert noted["to"] == ORIGIN
    assert dict(record.request.headers)["delay-to"] == b"https://hooks.example.com/sesame"
    assert noted_filter({"to": URL}) == {"to": ORIGIN}


async def test_viewers_cannot_guess_the_path_of_a_url_by_searching(users: Path) -> None:
    async with served(real_below="/api/v1/", DELAY_WEB_USERS_FILE=users) as client:
        for place in ("messages", "dead-letters"):
            for to, status in ((f"{ORIGIN}/s", 400), (f"{ORIGIN}/", 200), (ORIGIN, 200), ("orders", 200)):
                for role in ROLES:
                    answer = await client.get(f"/api/v1/{place}", params={"to": to}, headers=shown(role))
                    assert answer.status == (status if role == "viewer" else 200), (place, to, role)
