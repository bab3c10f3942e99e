"""The routes of messages, the same on workers and gateways: schedule, read, cancel, reschedule, pause and resume."""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from aiohttp import web

from app.serve.access.caller import caller_of
from app.serve.messages import json_input, record_form, short_form
from app.serve.messages.acceptance import Draft
from app.serve.messages.desk import Done, MessageDesk, full_id
from app.serve.messages.outcome import OPEN, problem_of
from app.serve.messages.short_form import Span
from app.serve.search.pending import written
from app.serve.web import problem
from app.serve.web.answers import as_json
from app.serve.web.guard import JSON_TYPES
from app.serve.web.ids import PLACE, address, id_in
from app.serve.web.problem import Problem, pointer
from app.settings.topics import TopicSettings
from punctual.contract import headers as names
from punctual.contract.cron import doubt

#: The maximum messages of a request. They are decoded without a break, in which the event loop does no other work.
MOST: Final = 1_000
#: Set by handlers if a part of the request failed that may succeed when it is repeated.
AGAIN: Final = web.RequestKey("again", bool)
MESSAGES: Final = "/api/v1/messages"
_CREATED, _ACCEPTED, _MULTI, _REFUSED = 201, 202, 207, 422
#: The statuses of messages that may succeed when the request is repeated.
_AGAIN: Final = (429, 503)
_TAG: Final = re.compile(r'"(\d{1,15})"', re.ASCII)
_MOVES: Final = ("at", "after", "jitter")
_IF_DUE: Final = "if_due"


class MessageOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a message: 201, it is in Kafka; 202, it is on a gateway's disk, or no worker has reported it yet.

    Use `id` in later requests. `due` is the due time (RFC 3339), `due_ms` the same in epoch milliseconds; commands
    other than `reschedule` have none. `source` is the position of its record, `topic-partition-offset`. `warning` is
    there if a cron expression is probably a mistake. A worker waits for the event of the message: `outcome` is its
    name, `event` the whole event, and `sentence` the outcome in words.
    """

    status: int
    id: str
    due: str | None = None
    due_ms: int | None = None
    to: str | None = None
    source: str | None = None
    warning: str | None = None
    outcome: str | None = None
    sentence: str | None = None
    event: dict[str, Any] | None = None


class Messages(msgspec.Struct, frozen=True, kw_only=True):
    """The outcomes of the messages of a batch, in order; a problem for each refused one."""

    results: list[Any]  # MessageOutcome or ProblemBody: msgspec has no schema for untagged unions


class Reschedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The new due time: `at`, or `after` from now, with its own `jitter`, or none."""

    at: Span = None
    after: Span = None
    jitter: Span = None
    if_due: Span = None


class Condition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The due time (epoch ms) that the message must have, as earlier versions sent it. Use `If-Match` instead."""

    if_due: Span = None


def register(web_app: web.Application, desk: MessageDesk, topics: TopicSettings) -> None:
    """Add the routes to an application that has not started; messages are for the topic of requests."""
    routes = MessageRoutes(desk, topics)
    one = f"{MESSAGES}/{PLACE}"
    router = web_app.router
    router.add_post(MESSAGES, routes.post)
    router.add_get(one, routes.get)
    router.add_delete(one, routes.command)
    router.add_patch(one, routes.reschedule)
    # The last address, and that of reschedule, are of earlier versions of workers, for this release.
    for action in ("deliver-now", "pause", "resume", "cancel"):
        router.add_post(f"{one}/{action}", routes.command)
    router.add_post(f"{one}/reschedule", routes.reschedule)


class MessageRoutes:
    """Reads messages and commands from requests, and answers with their outcomes."""

    def __init__(self, desk: MessageDesk, topics: TopicSettings) -> None:
        self._desk, self._topic, self._namespaces = desk, topics.requests, topics.namespaces

    async def post(self, request: web.Request) -> web.Response:
        """Answer POST /api/v1/messages: schedule one message or a batch, in either form."""
        raw = await json_input.read_body(request)
        if not raw.startswith(b"["):
            [one] = await self._desk.hand_in(request, 1, lambda _: self._draft(raw))
            return _answer(one)
        entries = json_input.decode(list[msgspec.Raw], raw)
        if len(entries) > MOST:
            sentence = f"The batch has {len(entries)} messages. The maximum is {MOST:,}. Split it."
            raise Problem("too-many-messages", sentence)
        results = await self._desk.hand_in(request, len(entries), lambda number: self._draft(bytes(entries[number])))
        return _batch(request, results)

    def _draft(self, raw: bytes) -> Draft:
        read = record_form.draft if _is_record(raw) else short_form.draft
        return read(raw, self._topic)

    async def get(self, request: web.Request) -> web.Response:
        """Answer GET /api/v1/messages/{id} with the pending message."""
        return await self._desk.read(request, self._id(request))

    async def reschedule(self, request: web.Request) -> web.Response:
        """Answer PATCH /api/v1/messages/{id}: change the due time of the message."""
        id_, raw = self._id(request), await json_input.read_body(request, JSON_TYPES)
        change = json_input.decode(Reschedule, raw)
        json_input.check_unique(raw, (*_MOVES, _IF_DUE))
        return await self._command(request, id_, "reschedule", change)

    async def command(self, request: web.Request) -> web.Response:
        """Answer DELETE /api/v1/messages/{id}, and POST /api/v1/messages/{id}/deliver-now, …/pause and …/resume."""
        action = "cancel" if request.method == "DELETE" else request.path.rpartition("/")[2]
        id_, condition = self._id(request), await json_input.read(request, Condition)
        return await self._command(request, id_, action, condition)

    def _id(self, request: web.Request) -> str:
        return full_id(caller_of(request), id_in(request), self._namespaces)

    async def _command(self, request: web.Request, id_: str, action: str, body: msgspec.Struct) -> web.Response:
        fields, matched = msgspec.structs.asdict(body), _matched(request)
        headers: list[tuple[str, bytes | None]] = [(names.OP, action.encode()), (names.ID, id_.encode())]
        times = {name: fields[name] for name in _MOVES if fields.get(name) is not None}
        headers += [(names.PREFIX + name, str(time).encode()) for name, time in times.items()]
        if_due = matched if matched is not None else fields.get(_IF_DUE)
        if if_due is not None:
            headers.append((names.IF_DUE, str(if_due).encode()))
        places = {names.PREFIX + name: pointer(name) for name in _MOVES} | {names.IF_DUE: pointer(_IF_DUE)}
        draft = Draft(self._topic, id_.encode(), None, headers, places=places)
        outcome = await self._desk.command(request, action, draft)
        failure = problem_of(outcome, conditional=matched is not None, id=id_)
        if failure is not None:
            raise failure
        due_ms = (outcome.event or {}).get("due") if outcome.outcome == "rescheduled" else None
        due = None if due_ms is None else written(due_ms)
        answer = msgspec.structs.replace(outcome, id=id_, due=due, due_ms=due_ms)
        return as_json(answer, _ACCEPTED if outcome.outcome in OPEN else 200, tagged(due_ms))


def _matched(request: web.Request) -> str | None:
    """Return the due time in If-Match, None without one. Raises Problem."""
    lines = request.headers.getall("If-Match", [])
    if not lines or lines == ["*"]:
        return None
    match = _TAG.fullmatch(lines[0].strip()) if len(lines) == 1 else None
    if match is None:
        sentence = "If-Match must be one entity tag, as in ETag: the due time in epoch milliseconds, in quotes."
        raise Problem("changed" if len(lines) == 1 and "," not in lines[0] else "bad-request", sentence)
    return match[1]


def _is_record(raw: bytes) -> bool:
    """Return whether JSON has only fields of the record form, and at least one that the short form does not have."""
    fields = json_input.fields(raw)
    if not fields or not fields.keys() <= set(record_form.NAMES):
        return False
    return (
        not fields.keys().isdisjoint(("partition_id", "timestamp"))
        or any(bytes(fields.get(name, b"")).startswith(b"{") for name in ("key", "value"))
        or bytes(fields.get("headers", b"")).startswith(b"[")
    )


def _answer(done: Done | Problem) -> web.Response:
    if isinstance(done, Problem):
        return problem.response(done)
    message = _outcome(done)
    return as_json(message, message.status, {"Location": address(MESSAGES, message.id), **tagged(message.due_ms)})


def _outcome(done: Done) -> MessageOutcome:
    request, outcome = done.accepted.asked, done.outcome
    due_ms = request.due_ms if request.op in ("schedule", "reschedule") else None
    if due_ms is not None and outcome is not None:  # what counts is when Kafka received the message
        due_ms = (outcome.event or {}).get("due", due_ms)
    is_open = done.spooled or (outcome is not None and outcome.outcome in OPEN)
    cron = None if request.recurrence is None else request.recurrence.cron
    message = MessageOutcome(
        status=_ACCEPTED if is_open else _CREATED,
        id=done.accepted.submission.id,
        due=None if due_ms is None else written(due_ms),
        due_ms=due_ms,
        to=request.to or None,
        source=done.source,
        warning=None if cron is None else doubt(cron),
    )
    if outcome is None:
        return message
    return msgspec.structs.replace(message, outcome=outcome.outcome, sentence=outcome.sentence, event=outcome.event)


def _batch(request: web.Request, results: Sequence[Done | Problem]) -> web.Response:
    outcomes = [one if isinstance(one, Problem) else _outcome(one) for one in results]
    bodies = [one.body(f"/{number}") if isinstance(one, Problem) else one for number, one in enumerate(outcomes)]
    again = [one for one in results if isinstance(one, Problem) and one.status in _AGAIN]
    request[AGAIN] = bool(again)
    waits_s = [int(one.headers.get("Retry-After", 0)) for one in again]
    headers = {"Retry-After": str(max(waits_s))} if waits_s and all(waits_s) else {}  # one without may have been done
    return as_json(Messages(results=bodies), _status({one.status for one in outcomes}), headers)


def _status(of: set[int]) -> int:
    """Return the status of a batch whose messages have these statuses: a success only if a message succeeded."""
    if of <= {_CREATED, _ACCEPTED}:
        return max(of, default=_CREATED)
    if of & {_CREATED, _ACCEPTED}:
        return _MULTI
    return of.pop() if len(of) == 1 else _REFUSED


def tagged(due_ms: int | None) -> dict[str, str]:
    """Return the header with the entity tag of a message that is due at `due_ms`, none for None."""
    return {} if due_ms is None else {"ETag": f'"{due_ms}"'}
