"""Messages, dead letters, jobs and acts of two teams, told as a worker's own parts would tell them."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec
import pytest
from aiohttp import ClientResponse
from yarl import URL

from app.serve.access.caller import Caller
from app.serve.actions.audit import Action, Audit
from app.serve.actions.commands import CommandSender
from app.serve.actions.job import Job, JobStatus, status_of
from app.serve.actions.job_log import JobLog
from app.serve.actions.jobs import Jobs
from app.serve.actions.resend import Sending
from app.serve.dead_letters.dead_letter import DeadLetter, DeadLetterFilter
from app.serve.dead_letters.dead_letters import DeadLetterCount, DeadLetterPage, DeadLetters
from app.serve.messages.outcome import SENT, Outcome
from app.serve.search.filter import Filter
from app.serve.search.life import Life
from app.serve.search.page import PendingPage, SearchCount
from app.serve.search.pending import PendingMessage
from app.serve.search.search import Search
from app.serve.web.problem import MEDIA_TYPE
from app.serve.web.problem_types import PATH, TYPES
from punctual.contract.namespaces import parse_namespaces
from tests.app.serve.access.conftest import Client, shown

THERE: Final = parse_namespaces("a-in=team-a,b-in=team-b")
TEAMS: Final = {
    "DELAY_INPUTS": "a-in=native,b-in=native",
    "DELAY_NAMESPACES": "a-in=team-a,b-in=team-b",
    "DELAY_DESTINATIONS": "shared.*,a-in:orders|orders.*,b-in:billing",
    "DELAY_HTTP_DESTINATIONS": "a-in:https://a.example/*,b-in:https://b.example/*",
}
USERS: Final = {"whole": "", "a": ":team-a", "b": ":team-b", "ab": ":team-a,team-b"}
#: Ids that are pending, with ids that an input has counted, and ids outside every namespace.
IDS: Final = ("team-a/x", "a-in-0-5", "team-b/x", "b-in-0-5", "shared", "delay-requests-0-5")
OF: Final = {"whole": IDS, "a": IDS[:2], "b": IDS[2:4], "ab": IDS[:4]}
PLACES: Final = {"0-1": "a", "0-2": "b", "0-3": "b", "0-4": ""}
DEAD: Final = {
    "0-1": ("team-a/d", "a-in-0-1"),
    "0-2": ("team-b/d", "b-in-0-1"),
    "0-3": (None, "b-in-0-2"),
    "0-4": (None, "delay-requests-0-1"),
}
JOBS: Final = {"ja": ("team-a",), "jb": ("team-b",), "jab": ("team-a", "team-b"), "jd": ("team-b",), "all": None}


def row(id_: str) -> PendingMessage:
    return PendingMessage(id=id_, partition=0, due_ms=1, to="t", source="s-0-0")


def dead(place: str) -> DeadLetter:
    id_, source = DEAD[place]
    headers: list[tuple[str, bytes | None]] = [("delay-to", b"orders"), ("delay-after", b"1")]
    if id_ is not None:
        headers.append(("delay-id", id_.encode()))
    return DeadLetter(partition=0, offset=int(place[2:]), at_ms=1, reason="r", error="e", source=source, id=id_,
                      headers=headers)  # fmt: skip


def standing_of(job_id: str, within: tuple[str, ...] | None) -> JobStatus:
    part = None if within is None else THERE.part(within)
    filters: dict[str, Any] = {"filter": Filter(within=part)}
    if job_id == "jd":
        filters = {"filter": Filter(), "dead_letters": DeadLetterFilter(within=part)}
    job = Job(job_id=job_id, at_ms=1, by="x", role="admin", act="cancel", counted=1, ends=[{"b-in": 7}], **filters)
    return status_of(job, [])


class World:
    """Messages, jobs and dead letters in place of a worker's, and a record of the requests."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[tuple[str, Any, str]] = []
        self.jobs: list[tuple[str, Filter | DeadLetterFilter]] = []
        self.audited: list[tuple[str, str, tuple[str, ...]]] = []
        self.stopped: list[str] = []
        for kind, name, told in (
            (Search, "page", self._page),
            (Search, "count", self._count),
            (Search, "message", self._message),
            (Search, "life", self._life),
            (DeadLetters, "page", self._dead_page),
            (DeadLetters, "count", self._dead_count),
            (DeadLetters, "one", self._dead_one),
            (Jobs, "all", self._all),
            (Jobs, "one", self._one),
            (Jobs, "stop", self._stop),
            (Jobs, "start", self._start),
            (CommandSender, "execute", self._execute),
            (Audit, "begin", self._begin),
            (Audit, "end", self._nothing),
            (JobLog, "read", self._nothing),
            (JobLog, "resent", self._nothing),
        ):
            monkeypatch.setattr(kind, name, told)

    async def _nothing(self, *_: Any) -> None:
        return None

    def _rows(self, wanted: Filter) -> list[PendingMessage]:
        return [row(id_) for id_ in IDS if wanted.within is None or wanted.within.of_id(id_)]

    async def _page(self, wanted: Filter, *_: Any, **__: Any) -> PendingPage:
        return PendingPage(
            rows=self._rows(wanted), next=None, looked_at=6, looked_to_ms=None, complete=True, missing=[]
        )

    async def _count(self, wanted: Filter, _: float) -> SearchCount:
        return SearchCount(matching=len(self._rows(wanted)), looked_at=6, complete=True, missing=[])

    async def _message(self, id_: str, **_: Any) -> PendingMessage | None:
        return row(id_) if id_ in IDS else None

    async def _life(self, id_: str) -> Life:
        return Life([{"event": "accepted", "id": id_}] if id_ in IDS else [], None)

    def _dead(self, wanted: DeadLetterFilter) -> list[DeadLetter]:
        return [one for one in map(dead, DEAD) if wanted.fits(one)]

    async def _dead_page(self, wanted: DeadLetterFilter, *_: Any) -> DeadLetterPage:
        return DeadLetterPage(rows=self._dead(wanted), next=None, looked_at=4, looked_back_to_ms=None)

    async def _dead_count(self, wanted: DeadLetterFilter, _: float) -> DeadLetterCount:
        return DeadLetterCount(matching=len(self._dead(wanted)), looked_at=4, complete=True)

    async def _dead_one(self, partition: int, offset: int) -> DeadLetter | None:
        place = f"{partition}-{offset}"
        return dead(place) if place in DEAD else None

    async def _all(self) -> list[JobStatus]:
        return [standing_of(job_id, within) for job_id, within in JOBS.items()]

    async def _one(self, job_id: str) -> JobStatus | None:
        return standing_of(job_id, JOBS[job_id]) if job_id in JOBS else None

    async def _stop(self, _: Any, job: Job) -> JobStatus | None:
        self.stopped.append(job.job_id)
        return await self._one(job.job_id)

    async def _start(self, _: Any, act: str, wanted: Filter | DeadLetterFilter, *__: Any) -> JobStatus:
        self.jobs.append((act, wanted))
        return standing_of("jd", ("team-b",)) if act == "resend" else standing_of("ja", ("team-a",))

    async def _execute(self, act: str, records: Sequence[Sending]) -> list[Outcome]:
        self.sent += [(act, one.request, one.topic) for one in records]
        return [Outcome(outcome=SENT, sentence="", source="delay-requests-0-0") for _ in records]

    async def _begin(self, caller: Caller, act: str, target: str, asked: Any, within: Any) -> Action:
        self.audited.append((act, target, tuple(within)))
        return Action(act_id="1", at_ms=1, by=caller.name, role=caller.role, act=act, target=target, asked=asked)


async def asked(client: Client, user: str, path: str, body: Any = None) -> tuple[int, Any]:
    url = URL(f"http://{client.host}:{client.port}/api/v1{path}", encoded=True)
    method = "GET" if body is None else "POST"
    headers = {"Content-Type": "application/json", **shown(user)}
    raw = None if body is None else msgspec.json.encode(body)
    async with client.session.request(method, url, headers=headers, data=raw) as answer:
        if answer.status >= HTTPStatus.BAD_REQUEST:
            await is_problem(answer)
        return answer.status, await answer.json()


async def is_problem(answer: ClientResponse) -> None:
    """See that an error is a problem of a type that has this status."""
    body = await answer.json()
    kind = TYPES[body["type"].removeprefix(PATH)]
    assert (answer.content_type, body["title"], body["status"]) == (MEDIA_TYPE, kind.title, answer.status)
    assert (kind.status, bool(body["detail"])) == (answer.status, True)
