"""POST /kafka/v3/clusters/{any}/topics/{topic}/records: the requests and responses of Confluent's REST proxy."""

import asyncio
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Final

import msgspec
from aiohttp import web

from app.gateway.confluent.failures import Failure, failed, failure_of
from app.gateway.confluent.json_stream import NotJson, Splitter
from app.gateway.desk import GatewayDesk, Stored
from app.serve.messages import json_input, record_form
from app.serve.messages.acceptance import Draft
from app.serve.messages.routes import MOST
from app.serve.search.pending import written
from app.serve.web.guard import route_of
from app.serve.web.problem import Problem
from app.settings.topics import TopicSettings

#: The bytes that are split before other requests get a turn: up to 4 ms, if each byte begins or ends something.
_SLICE: Final = 8 << 10

ROUTE: Final = "/kafka/v3/clusters/{cluster}/topics/{topic}/records"
#: The bytes that a stream of records uses at any length, because it is read one record at a time.
_STREAM_BYTES: Final = 1 << 20


def size_of(request: web.Request) -> int | None:
    """Return the bytes that a body of unknown length uses; None if it is read as a whole."""
    return _STREAM_BYTES if route_of(request) == f"POST {ROUTE}" else None


class Size(msgspec.Struct, frozen=True):
    """The type of a key or value, and its size in bytes."""

    type: str
    size: int


class RecordOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a record: `error_code` is 200 if it is safe.

    `message` contains the message's ID. A record on this gateway's disk has no `offset` until Kafka accepts it.
    """

    error_code: int
    message: str
    cluster_id: str
    topic_name: str
    partition_id: int | None = None
    offset: int | None = None
    timestamp: str | None = None
    key: Size | None = None
    value: Size | None = None


def register(web_app: web.Application, topics: TopicSettings, desk: GatewayDesk) -> None:
    """Add the route to an application that has not started; it sends records for input topics through `desk`."""

    async def post(request: web.Request) -> web.StreamResponse:
        """Answer with a report for each record, in order, as soon as its outcome is known."""
        if request.match_info["topic"] not in topics.inputs:
            return failed(Failure(error_code=40403, message="This server does not host this topic-partition."))
        json_input.check_type(request)
        splitter, answer = Splitter(request.client_max_size), _Answer(request, desk)
        try:
            while piece := await request.content.readany():
                for records in _cut(splitter, piece, MOST):
                    await (answer.report(records) if records else asyncio.sleep(0))
        except NotJson as error:
            return await answer.end(Failure(error_code=400, message=f"Error processing JSON: {error}"))
        if splitter.is_amid:
            return await answer.end(Failure(error_code=400, message="The last record is not complete."))
        return await answer.end(None)

    web_app.add_routes([web.post(ROUTE, post)])


class _Answer:
    """The response with the reports of one request."""

    def __init__(self, request: web.Request, desk: GatewayDesk) -> None:
        self._request, self._desk, self._count = request, desk, 0
        self._cluster, self._topic = request.match_info["cluster"], request.match_info["topic"]
        self._answer = web.StreamResponse(headers={"Content-Type": "application/json"})

    async def report(self, records: Sequence[bytes]) -> None:
        """Send records, and write a report for each."""

        def draft(number: int) -> Draft:
            json_input.check_text(records[number])
            json_input.check_json(records[number])
            return record_form.draft(records[number], self._topic)

        results = await self._desk.hand_in(self._request, len(records), draft, self._count)
        self._count += len(records)
        reports = [failure_of(one) if isinstance(one, Problem) else _reported(one, self._cluster) for one in results]
        if not self._answer.prepared:
            await self._answer.prepare(self._request)
        await self._answer.write(b"".join(msgspec.json.encode(report) + b"\n" for report in reports))

    async def end(self, failure: Failure | None) -> web.StreamResponse:
        """End the response, with the failure if the rest could not be read."""
        if not self._answer.prepared:
            empty = Failure(error_code=42206, message="Payload error. Request body is empty. Data is required.")
            return failed(failure or empty)
        if failure is not None:
            await self._answer.write(msgspec.json.encode(failure) + b"\n")
        await self._answer.write_eof()
        return self._answer


def _cut(splitter: Splitter, piece: bytes, most: int) -> Iterator[list[bytes]]:
    """Yield the records that end in a piece, at most `most` at a time, and empty lists to let other requests run.

    Raises NotJson at an invalid record, after yielding the records before it.
    """
    records: list[bytes] = []
    try:
        for begin in range(0, len(piece), _SLICE):
            for record in splitter.feed(piece[begin : begin + _SLICE]):
                records.append(record)
                if len(records) == most:
                    yield records
                    records = []
            yield []
    except NotJson:
        yield records
        raise
    yield records


def _reported(done: Stored, cluster: str) -> RecordOutcome:
    submission, taken, draft = done.accepted.submission, done.taken, done.accepted.draft
    waits = "; it is on the gateway's disk until Kafka accepts it" if taken.spooled else ""
    return RecordOutcome(
        error_code=HTTPStatus.OK,
        message=f"The message's id is {submission.id}{waits}",
        cluster_id=cluster,
        topic_name=submission.topic,
        partition_id=submission.partition if taken.partition is None else taken.partition,
        offset=taken.offset,
        timestamp=None if taken.timestamp_ms is None else written(taken.timestamp_ms),
        key=None if draft.key_type is None else Size(draft.key_type, len(draft.key or b"")),
        value=None if draft.value_type is None else Size(draft.value_type, len(draft.value or b"")),
    )
