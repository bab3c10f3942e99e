"""POST /api/v1/messages: one message or a batch, in either form, with an outcome for each message."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from aiohttp import web

from app.gateway.api import record_form, short_form
from app.gateway.desk.acceptance import Draft
from app.gateway.desk.desk import Desk, Done
from app.gateway.http import json_input
from app.gateway.keys.once import AGAIN
from app.serve.web import problem
from app.serve.web.ids import address
from app.serve.web.problem import Problem
from app.settings.topics import TopicSettings
from punctual.contract.cron import doubt
from punctual.contract.times import moment_of

#: The maximum messages of a request. They are decoded without a break, in which the event loop does no other work.
MOST: Final = 1_000
_ARRAY: Final = msgspec.json.Decoder(list[msgspec.Raw])
_CREATED, _ACCEPTED, _MULTI, _REFUSED = 201, 202, 207, 422
#: The statuses of messages that may succeed when the request is repeated.
_AGAIN: Final = (429, 503)


class MessageOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a message: 201, it is in Kafka; 202, it is on this gateway's disk until Kafka accepts it.

    Use `id` in later requests. `due` is the due time (RFC 3339), `due_ms` the same in epoch milliseconds; commands
    other than `reschedule` have none. `source` is the position of its record, `topic-partition-offset`. `warning` is
    there if a cron expression is probably a mistake.
    """

    status: int
    id: str
    due: str | None = None
    due_ms: int | None = None
    to: str | None = None
    source: str | None = None
    warning: str | None = None


class Messages(msgspec.Struct, frozen=True, kw_only=True):
    """The outcomes of the messages of a batch, in order; a problem for each refused one."""

    results: list[Any]  # Message or Answered: msgspec has no schema for untagged unions


class MessageRoutes:
    """Accepts messages."""

    def __init__(self, topics: TopicSettings, desk: Desk) -> None:
        """Send messages through `desk`."""
        self._topics, self._desk = topics, desk

    async def post(self, request: web.Request) -> web.Response:
        """Answer POST /api/v1/messages: schedule one message or a batch."""
        raw = await json_input.read_body(request)
        if not raw.startswith(b"["):
            [one] = await self._desk.hand_in(request, 1, lambda _: self._draft(raw))
            return answer(one)
        entries = json_input.decode(_ARRAY, raw)
        if len(entries) > MOST:
            sentence = f"The batch has {len(entries)} messages. The maximum is {MOST:,}. Split it."
            raise Problem("too-many-messages", sentence)
        results = await self._desk.hand_in(request, len(entries), lambda number: self._draft(bytes(entries[number])))
        return _batch(request, results)

    def _draft(self, raw: bytes) -> Draft:
        """Return the record that JSON describes, in either form. Raises Problem."""
        read = record_form.draft if _is_record(raw) else short_form.draft
        return read(raw, self._topics.requests)


def _is_record(raw: bytes) -> bool:
    """Return whether JSON has only fields of the record form, and at least one that is in no short form."""
    fields = json_input.fields(raw)
    if not fields or not fields.keys() <= set(record_form.NAMES):
        return False
    return (
        not fields.keys().isdisjoint(("partition_id", "timestamp"))
        or any(bytes(fields.get(name, b"")).startswith(b"{") for name in ("key", "value"))
        or bytes(fields.get("headers", b"")).startswith(b"[")
    )


def answer(done: Done | Problem) -> web.Response:
    """Return the response for one message."""
    if isinstance(done, Problem):
        return problem.response(done)
    message = told(done)
    headers = {"Location": address("/api/v1/messages", message.id)}
    if message.due_ms is not None:
        headers["ETag"] = entity_tag(message.due_ms)
    return as_json(message, message.status, headers)


def told(done: Done) -> MessageOutcome:
    """Return the outcome of a message that is safe."""
    asked = done.accepted.asked
    is_due = asked.op in ("schedule", "reschedule")
    return MessageOutcome(
        status=_ACCEPTED if done.taken.spooled else _CREATED,
        id=done.id,
        due=written(asked.due_ms) if is_due else None,
        due_ms=asked.due_ms if is_due else None,
        to=asked.to or None,
        source=done.source,
        warning=None if asked.recurrence is None or asked.recurrence.cron is None else doubt(asked.recurrence.cron),
    )


def _batch(request: web.Request, results: Sequence[Done | Problem]) -> web.Response:
    """Return the response for a batch."""
    outcomes = [one if isinstance(one, Problem) else told(one) for one in results]
    bodies = [one.body(f"/{number}") if isinstance(one, Problem) else one for number, one in enumerate(outcomes)]
    again = [one for one in results if isinstance(one, Problem) and one.status in _AGAIN]
    request[AGAIN] = bool(again)
    headers = {name: value for one in again for name, value in one.headers.items()}
    return as_json(Messages(results=bodies), _status({one.status for one in outcomes}), headers)


def _status(of: set[int]) -> int:
    """Return the status of a batch whose messages have these statuses: a success only if a message succeeded."""
    if of <= {_CREATED, _ACCEPTED}:
        return max(of, default=_CREATED)
    if of & {_CREATED, _ACCEPTED}:
        return _MULTI
    return of.pop() if len(of) == 1 else _REFUSED


def written(due_ms: int) -> str | None:
    """Return a time in RFC 3339, None beyond the year 9999."""
    try:
        return moment_of(due_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None


def entity_tag(due_ms: int) -> str:
    """Return the entity tag of a message that is due at `due_ms`."""
    return f'"{due_ms}"'


def as_json(answer: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """Return a response in JSON."""
    return web.Response(
        body=msgspec.json.encode(answer), status=status, headers=headers, content_type="application/json"
    )
