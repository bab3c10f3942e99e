"""Operations of the API, and those on messages, which workers and gateways serve."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from punctual.contract.request import Reason

WORKER: Final = "worker"
GATEWAY: Final = "gateway"


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
    deprecated: bool = False
    #: The kind of process that serves it, empty for both.
    served_by: str = ""


_REASONS: Final = tuple(reason.value for reason in Reason)
#: Problems that any request may get.
ANY: Final = (
    *("bad-request", "unauthorized", "forbidden", "timeout", "uri-too-long", "misdirected", "rate"),
    *("headers-too-large", "internal", "not-found", "method-not-allowed", "process-exited", "not-ready"),
)
#: Problems of bodies.
BODY: Final = ("bad-json", "malformed", "body-too-large", "unsupported-media-type", "busy")
_TAKEN: Final = ("disk-full", "kafka-unavailable", "read-only")
_KEYED: Final = ("idempotency-key", "idempotency-key-reused", "in-progress", "keys-unread")
_ORDERED: Final = ("unknown-message", "conflict", "came-too-late", "stale", "changed", *_REASONS, *_TAKEN, *_KEYED)

_ID: Final = Parameter("id", "path", "The message's ID. Slashes need no encoding.", "order-42", {"minLength": 1})
_ID_IN_QUERY: Final = Parameter(
    "id", "query",
    "The message's ID, if the path has - instead: for the IDs . and .., which clients and proxies change.",
    "order-42", {"minLength": 1},
)  # fmt: skip
_MATCH: Final = Parameter(
    "If-Match", "header", "Only if the message is due exactly then: the ETag of an earlier response.",
    '"1924992000000"', {"pattern": r'^(\*|"[0-9]{1,15}")$'},
)  # fmt: skip
_KEY: Final = Parameter(
    "Idempotency-Key", "header",
    "A string in double quotes. For a day, the same request gets the same response, from any server.",
    '"8e03978e-40d5-43dd-bc93-6894a57f9324"', {"pattern": '^"[A-Za-z0-9-]{1,64}"$'},
)  # fmt: skip
_ETAG: Final = {"ETag": "The due time in epoch milliseconds, in quotes."}
_PLACE: Final = {"Location": "The message's address.", **_ETAG}

_SHORT: Final = {
    "to": "reminders",
    "after": "PT15M",
    "key": "customer-7",
    "value": {"order": 42},
    "headers": {"trace": "4bf92f"},
    "id": "order-42",
}
_RECORD: Final = {
    "key": {"type": "STRING", "data": "customer-7"},
    "value": {"type": "JSON", "data": {"order": 42}},
    "headers": [
        {"name": "delay-to", "value": "cmVtaW5kZXJz"},
        {"name": "delay-after", "value": "UFQxNU0="},
        {"name": "trace", "value": "NGJmOTJm"},
    ],
}
_EXAMPLES: Final = {
    "short": _SHORT,
    "at": {"to": "reminders", "at": "2031-01-31T08:00:00+01:00", "value": "Good morning", "max-late": "PT1H"},
    "series": {"to": "reminders", "cron": "0 8 * * 1-5", "zone": "Europe/Berlin", "value": "stand up"},
    "bytes": {"to": "reminders", "after": 60_000, "value": {"base64": "AAH/"}, "headers": [["h", "1"], ["h", "2"]]},
    "record": _RECORD,
    "binary record": {
        "partition_id": 1,
        "value": {"type": "BINARY", "data": "AAH/"},
        "headers": [
            {"name": "delay-to", "value": "cmVtaW5kZXJz"},
            {"name": "delay-at", "value": "MTkyNDk5MjAwMDAwMA=="},
            {"name": "delay-id", "value": "b3JkZXItNDM="},
        ],
    },
    "batch": [_SHORT, _RECORD],
}
_DONE: Final = {
    "status": 201,
    "id": "order-42",
    "due": "2031-01-01T00:00:00.000Z",
    "due_ms": 1924992000000,
    "to": "reminders",
    "source": "delay-requests-3-17",
}

_NEW_TIMES: Final = {"after": {"after": "PT1H"}, "at": {"at": 1924992000000, "jitter": 1000}}


def _command(
    method: str, action: str, name: str, summary: str, done: str, takes: tuple[str, ...] = (), **more: Any
) -> Operation:
    """Return the operation of a command; `action` is the rest of the path after the ID, `done` the meaning of 200."""
    description = "The response waits a few seconds for the outcome."
    answers = (
        OperationAnswer(200, done, ("Order",), _ETAG),
        OperationAnswer(202, "The command is accepted; its outcome is not known yet.", ("Order",)),
    )
    parameters, problems = (_ID, _ID_IN_QUERY, _MATCH, _KEY), (*ANY, *BODY, *_ORDERED)
    path = "/api/v1/messages/{id}" + action
    return Operation(method, path, name, summary, description, answers, parameters, takes, problems=problems, **more)


OPERATIONS: Final = (
    Operation(
        "POST", "/api/v1/messages", "sendMessages", "Schedule messages",
        "One message (an object) or a batch (an array), in the short form or in the record form of Confluent's REST "
        "proxy v3 with native headers. A batch has an outcome for each message.",
        (
            OperationAnswer(201, "Kafka has the message, or the whole batch.", ("Message", "Messages"), _PLACE,
                            {"one": _DONE, "batch": {"results": [_DONE]}}),
            OperationAnswer(202, "The message, or some of the batch, is on this gateway's disk until Kafka accepts it.",
                            ("Message", "Messages"), _PLACE),
            OperationAnswer(207, "Some messages of the batch were refused.", ("Messages",)),
        ),
        (_KEY,),
        ("ShortForm", "RecordForm", "Pending", "[ShortForm|RecordForm|Pending]"),
        _EXAMPLES,
        problems=(*ANY, *BODY, "too-many-messages", *_REASONS, *_TAKEN, *_KEYED),
    ),
    Operation(
        "GET", "/api/v1/messages/{id}", "getMessage", "Read a pending message",
        "A worker answers. Messages still on this gateway's disk, or not yet read by the worker, are not pending.",
        (OperationAnswer(200, "The message.", ("Pending",), _ETAG),), (_ID, _ID_IN_QUERY),
        problems=(*ANY, "unknown-message", "bad-id", "unreachable"),
    ),
    _command("DELETE", "", "cancelMessage", "Cancel a message", "The message is cancelled and will not be delivered."),
    _command("PATCH", "", "rescheduleMessage", "Reschedule a message",
             "The message has the new due time. Its content does not change.", ("Reschedule",), examples=_NEW_TIMES,
             media_types=("application/json", "application/merge-patch+json")),
    _command("POST", "/deliver-now", "deliverNow", "Deliver a message now",
             "The message is due now. The response does not wait for the delivery."),
    _command("POST", "/pause", "pauseMessage", "Pause a recurring message",
             "The recurring message is paused until it is resumed."),
    _command("POST", "/resume", "resumeMessage", "Resume a recurring message",
             "The recurring message continues with its next planned time."),
    _command("POST", "/cancel", "cancelMessageFormer", "Cancel a message, at the address of earlier versions",
             "The message is cancelled and will not be delivered. Use DELETE instead.", deprecated=True),
    _command("POST", "/reschedule", "rescheduleMessageFormer",
             "Reschedule a message, at the address of earlier versions",
             "The message has the new due time. Use PATCH instead.", ("Reschedule",), examples=_NEW_TIMES,
             deprecated=True),
)  # fmt: skip
