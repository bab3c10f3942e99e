"""The operations of the gateway's API, each with its parameters, bodies and responses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from punctual.contract.request import Reason


@dataclass(frozen=True, slots=True)
class Parameter:
    """A part of a URL, or a header of a request."""

    name: str
    where: str
    description: str
    example: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OperationAnswer:
    """A response: `body` names the possible structures of its body."""

    status: int
    description: str
    body: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    examples: Mapping[str, Any] = field(default_factory=dict)
    media_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path; `takes` names the possible structures of its body."""

    method: str
    path: str
    name: str
    summary: str
    description: str
    answers: tuple[OperationAnswer, ...]
    parameters: tuple[Parameter, ...] = ()
    takes: tuple[str, ...] = ()
    examples: Mapping[str, Any] = field(default_factory=dict)
    media_types: tuple[str, ...] = ("application/json",)
    problems: tuple[str, ...] = ()


_REASONS: Final = tuple(reason.value for reason in Reason)
_ANY: Final = (
    "bad-request",
    "unauthorized",
    "forbidden",
    "timeout",
    "uri-too-long",
    "misdirected",
    "rate",
    "headers-too-large",
    "internal",
)
_BODY: Final = ("bad-json", "malformed", "body-too-large", "unsupported-media-type", "busy")
_TAKEN: Final = ("spool-full",)
_KEYED: Final = ("idempotency-key", "idempotency-key-reused", "in-progress", "keys-unread")
_NOBODY: Final = ("unreachable",)
_ORDERED: Final = ("unknown-message", "conflict", "came-too-late", "stale", "changed", *_REASONS, *_TAKEN, *_KEYED)

_ID: Final = Parameter("id", "path", "The message's ID. Slashes need no encoding.", "order-42", {"minLength": 1})
_ID_IN_QUERY: Final = Parameter(
    "id",
    "query",
    "The message's ID, if the path has - instead: for the IDs . and .., which clients and proxies change.",
    "order-42",
    {"minLength": 1},
)
_MATCH: Final = Parameter(
    "If-Match",
    "header",
    "Only if the message is due exactly then: the ETag of an earlier response.",
    '"1924992000000"',
    {"pattern": r'^(\*|"[0-9]{1,15}")$'},
)
_KEY: Final = Parameter(
    "Idempotency-Key",
    "header",
    "A string in double quotes. For a day, the same request gets the same response, from any gateway.",
    '"8e03978e-40d5-43dd-bc93-6894a57f9324"',
    {"pattern": '^"[A-Za-z0-9-]{1,64}"$'},
)
_ETAG: Final = {"ETag": "The due time in epoch milliseconds, in quotes."}
_RETRY: Final = {"Retry-After": "Seconds."}

_SHORT: Final = {
    "to": "reminders",
    "after": "PT15M",
    "key": "customer-7",
    "value": {"order": 42},
    "headers": {"trace": "4bf92f"},
    "id": "order-42",
}
_AT: Final = {"to": "reminders", "at": "2031-01-31T08:00:00+01:00", "value": "Good morning", "max-late": "PT1H"}
_RECORD: Final = {
    "key": {"type": "STRING", "data": "customer-7"},
    "value": {"type": "JSON", "data": {"order": 42}},
    "headers": [
        {"name": "delay-to", "value": "cmVtaW5kZXJz"},
        {"name": "delay-after", "value": "UFQxNU0="},
        {"name": "trace", "value": "NGJmOTJm"},
    ],
}
_BINARY: Final = {
    "partition_id": 1,
    "value": {"type": "BINARY", "data": "AAH/"},
    "headers": [
        {"name": "delay-to", "value": "cmVtaW5kZXJz"},
        {"name": "delay-at", "value": "MTkyNDk5MjAwMDAwMA=="},
        {"name": "delay-id", "value": "b3JkZXItNDM="},
    ],
}
_DONE: Final = {
    "status": 201,
    "id": "order-42",
    "due": "2031-01-01T00:00:00.000Z",
    "due_ms": 1924992000000,
    "to": "reminders",
    "source": "delay-requests-3-17",
}

OPERATIONS: Final = (
    Operation(
        "POST",
        "/api/v1/messages",
        "sendMessages",
        "Schedule messages",
        "One message (an object) or a batch (an array), in the short form or in the record form of Confluent's REST "
        "proxy v3 with native headers. A batch has an outcome for each message.",
        (
            OperationAnswer(
                201,
                "Kafka has the message, or the whole batch.",
                ("Message", "Messages"),
                {"Location": "The message's address.", **_ETAG},
                {"one": _DONE, "batch": {"results": [_DONE]}},
            ),
            OperationAnswer(
                202,
                "The message, or some of the batch, is on this gateway's disk until Kafka accepts it.",
                ("Message", "Messages"),
                {"Location": "The message's address.", **_ETAG},
            ),
            OperationAnswer(207, "Some messages of the batch were refused.", ("Messages",)),
        ),
        (_KEY,),
        takes=("ShortForm", "RecordForm", "[ShortForm|RecordForm]"),
        examples={
            "short": _SHORT,
            "at": _AT,
            "series": {"to": "reminders", "cron": "0 8 * * 1-5", "zone": "Europe/Berlin", "value": "stand up"},
            "bytes": {
                "to": "reminders",
                "after": 60_000,
                "value": {"base64": "AAH/"},
                "headers": [["h", "1"], ["h", "2"]],
            },
            "record": _RECORD,
            "binary record": _BINARY,
            "batch": [_SHORT, _RECORD],
        },
        problems=(*_ANY, *_BODY, "too-many-messages", *_REASONS, *_TAKEN, *_KEYED),
    ),
    Operation(
        "GET",
        "/api/v1/messages/{id}",
        "getMessage",
        "Read a pending message",
        "A worker answers. Messages still on this gateway's disk, or not yet read by the worker, are not pending.",
        (OperationAnswer(200, "The message.", ("Pending",), _ETAG),),
        (_ID, _ID_IN_QUERY),
        problems=(*_ANY, "unknown-message", "bad-id", *_NOBODY),
    ),
    Operation(
        "DELETE",
        "/api/v1/messages/{id}",
        "cancelMessage",
        "Cancel a message",
        "The response waits a few seconds for the outcome.",
        (
            OperationAnswer(200, "The message is cancelled and will not be delivered.", ("Order",)),
            OperationAnswer(202, "The command is accepted; its outcome is not known yet.", ("Order",)),
        ),
        (_ID, _ID_IN_QUERY, _MATCH, _KEY),
        problems=(*_ANY, *_ORDERED),
    ),
    Operation(
        "PATCH",
        "/api/v1/messages/{id}",
        "rescheduleMessage",
        "Reschedule a message",
        "The content does not change. The response waits a few seconds for the outcome.",
        (
            OperationAnswer(200, "The message has the new due time.", ("Order",), _ETAG),
            OperationAnswer(202, "The command is accepted; its outcome is not known yet.", ("Order",)),
        ),
        (_ID, _ID_IN_QUERY, _MATCH, _KEY),
        ("Reschedule",),
        {"after": {"after": "PT1H"}, "at": {"at": 1924992000000, "jitter": 1000}},
        ("application/json", "application/merge-patch+json"),
        (*_ANY, *_BODY, *_ORDERED),
    ),
    Operation(
        "POST",
        "/api/v1/messages/{id}/deliver-now",
        "deliverNow",
        "Deliver a message now",
        "The message is due at once. The response waits a few seconds for the outcome, not for the delivery.",
        (
            OperationAnswer(200, "The message is due now.", ("Order",), _ETAG),
            OperationAnswer(202, "The command is accepted; its outcome is not known yet.", ("Order",)),
        ),
        (_ID, _ID_IN_QUERY, _MATCH, _KEY),
        problems=(*_ANY, *_ORDERED),
    ),
    Operation(
        "POST",
        "/kafka/v3/clusters/{cluster}/topics/{topic}/records",
        "produceRecord",
        "Produce records to an input, as to Confluent's REST proxy",
        "One record, or a stream of them, one JSON object after another. Each gets a report, in order, as soon as its "
        "outcome is known; `error_code` is 200 if the record is safe. The topic is an input of the installation, and "
        "records are in its dialect.",
        (
            OperationAnswer(
                200, "A report for each record, one JSON object after another.", ("Report", "ConfluentError")
            ),
        ),
        (
            Parameter("cluster", "path", "Any text: there is only one cluster.", "any"),
            Parameter("topic", "path", "An input topic.", "delay-requests"),
        ),
        ("RecordForm",),
        {"record": _RECORD, "binary record": _BINARY},
        problems=(*_ANY, *_BODY, "not-found", "idempotency-key", "spool-full"),
    ),
    Operation(
        "GET",
        "/problems/{name}",
        "getProblemType",
        "Read the meaning of a problem type",
        "The address in `type` of a problem.",
        (OperationAnswer(200, "The meaning.", ("Meaning",)),),
        (Parameter("name", "path", "Name of the type.", "missing-due", {"minLength": 1}),),
        problems=(*_ANY, "not-found"),
    ),
    Operation(
        "GET",
        "/api/v1/openapi.json",
        "getDocument",
        "Read this document",
        "Generated from the code that reads and writes messages.",
        (OperationAnswer(200, "This document.", ("anything",)),),
        problems=_ANY,
    ),
    Operation(
        "GET",
        "/live",
        "isLive",
        "Check that the process answers",
        "For liveness probes.",
        (OperationAnswer(200, "The process answers.", ("text",), media_type="text/plain"),),
        problems=_ANY,
    ),
    Operation(
        "GET",
        "/ready",
        "isReady",
        "Check that the gateway accepts messages",
        "Into Kafka or onto this gateway's disk. For readiness probes.",
        (
            OperationAnswer(200, "It accepts messages.", ("anything",)),
            OperationAnswer(503, "It does not accept messages.", ("anything",), _RETRY),
        ),
        problems=_ANY,
    ),
    Operation(
        "GET",
        "/metrics",
        "getMetrics",
        "Metrics in Prometheus format",
        "Of this gateway only.",
        (OperationAnswer(200, "The metrics.", ("text",), media_type="text/plain"),),
        problems=_ANY,
    ),
)
