"""Operations of the API, and those on messages, which workers and gateways serve."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, Final

from app.serve.web.problem import MEDIA_TYPE
from app.serve.web.problem_types import TYPES
from punctual.contract.request import Reason

#: A part of an OpenAPI document.
Part = dict[str, Any]
#: The path and the method of an operation, and its description.
Operation = tuple[str, str, Part]

_JSON: Final = "application/json"
#: The status of a batch with refused messages.
_MULTI: Final = 207
REF: Final = "#/components/schemas/{name}"
_PLAIN: Final[Mapping[str, Part]] = {
    "text": {"type": "string"},
    "anything": {"type": "object"},
    "event": {"type": "object", "properties": {"event": {"type": "string"}, "data": {"type": "string"}}},
}
#: The tags of operations that only one kind of process serves.
BY_WORKER: Final = {"tags": ["worker"]}
BY_GATEWAY: Final = {"tags": ["gateway"]}


def schema(names: Iterable[str]) -> Part:
    """Return the schema of a value with any structure in `names`; a name in brackets is a list."""
    schemas: list[Part] = []
    for name in names:
        if name.startswith("["):
            schemas.append({"type": "array", "items": schema(name.strip("[]").split("|"))})
        else:
            schemas.append(dict(_PLAIN[name]) if name in _PLAIN else {"$ref": REF.format(name=name)})
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def parameter(name: str, where: str, description: str, example: str = "", **more: Any) -> Part:
    """Return a part of a URL, or a header of a request, with `more` about the schema of its text."""
    about: Part = {"name": name, "in": where, "required": where == "path", "description": description}
    return about | {"schema": {"type": "string", **more}} | ({"example": example} if example else {})


def answer(
    description: str, *body: str, headers: Mapping[str, str] | None = None, media_type: str = _JSON, **examples: Any
) -> Part:
    """Return a response; `body` names the possible structures of its body."""
    content = {"schema": schema(body)} | ({"examples": _examples(examples)} if examples else {})
    described = {name: {"description": text, "schema": {"type": "string"}} for name, text in (headers or {}).items()}
    return {"description": description, "content": {media_type: content}} | ({"headers": described} if headers else {})


def takes(*names: str, examples: Mapping[str, Any], media_types: Iterable[str] = (_JSON,)) -> Part:
    """Return the part of an operation with its body; `names` are the possible structures."""
    content = {kind: {"schema": schema(names), "examples": _examples(examples)} for kind in media_types}
    return {"requestBody": {"required": True, "content": content}}


def _examples(examples: Mapping[str, Any]) -> Part:
    return {name: {"value": value} for name, value in examples.items()}


def operation(
    method: str,
    path: str,
    texts: tuple[str, str, str],
    answers: Mapping[int, Part],
    problems: Iterable[str],
    parameters: Iterable[Part] = (),
    **more: Any,
) -> Operation:
    """Return one method of one path, with its name, summary and description in `texts`, and `more` members."""
    by_status: dict[int, list[str]] = {}
    for problem in problems:
        by_status.setdefault(TYPES[problem].status, []).append(problem)
    content: Part = {MEDIA_TYPE: {"schema": schema(("ProblemBody",))}}
    if _MULTI in answers:  # a batch can be refused as a whole
        content[_JSON] = {"schema": schema(("Messages",))}
    refusals: dict[int, Part] = {
        status: {"description": "; ".join(f"`{name}`: {TYPES[name].title}" for name in names), "content": content}
        for status, names in sorted(by_status.items())
        if status not in answers
    }
    about: Part = dict(zip(("operationId", "summary", "description"), texts, strict=True))
    about["parameters"] = deepcopy(list(parameters))
    about["responses"] = {str(status): response for status, response in {**answers, **refusals}.items()}
    return path, method.lower(), about | deepcopy(more)


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

_ID: Final = parameter("id", "path", "The message's ID. Slashes need no encoding.", "order-42", minLength=1)
_ID_IN_QUERY: Final = parameter(
    "id", "query",
    "The message's ID, if the path has - instead: for the IDs . and .., which clients and proxies change.",
    "order-42", minLength=1,
)  # fmt: skip
_MATCH: Final = parameter(
    "If-Match", "header", "Only if the message is due exactly then: the ETag of an earlier response.",
    '"1924992000000"', pattern=r'^(\*|"[0-9]{1,15}")$',
)  # fmt: skip
_KEY: Final = parameter(
    "Idempotency-Key", "header",
    "A string in double quotes. For a day, the same request gets the same response, from any server.",
    '"8e03978e-40d5-43dd-bc93-6894a57f9324"', pattern='^"[A-Za-z0-9-]{1,64}"$',
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


def _command(method: str, rest: str, name: str, summary: str, done: str, **more: Any) -> Operation:
    """Return the operation of a command; `rest` is the part of the path after the ID, `done` the meaning of 200."""
    answers = {
        200: answer(done, "Outcome", headers=_ETAG),
        202: answer("The command is accepted; its outcome is not known yet.", "Outcome"),
    }
    texts = (name, summary, "The response waits a few seconds for the outcome.")
    parameters, problems = (_ID, _ID_IN_QUERY, _MATCH, _KEY), (*ANY, *BODY, *_ORDERED)
    return operation(method, f"{_MESSAGES}/{{id}}{rest}", texts, answers, problems, parameters, **more)


_MESSAGES, _FORMS = "/api/v1/messages", ("ShortForm", "RecordForm", "PendingMessage")
OPERATIONS: Final = (
    operation(
        "POST", _MESSAGES, (
            "sendMessages", "Schedule messages",
            ("One message (an object) or a batch (an array), in the short form or in the record form of Confluent's "
             "REST proxy v3 with native headers. A batch has an outcome for each message."),
        ), {
            201: answer("Kafka has the message, or the whole batch.", "MessageOutcome", "Messages", headers=_PLACE,
                        one=_DONE, batch={"results": [_DONE]}),
            202: answer("The message, or some of the batch, is on this gateway's disk until Kafka accepts it.",
                        "MessageOutcome", "Messages", headers=_PLACE),
            _MULTI: answer("Some messages of the batch were refused.", "Messages"),
        },
        (*ANY, *BODY, "too-many-messages", *_REASONS, *_TAKEN, *_KEYED), (_KEY,),
        **takes(*_FORMS, f"[{'|'.join(_FORMS)}]", examples=_EXAMPLES),
    ),
    operation(
        "GET", f"{_MESSAGES}/{{id}}", (
            "getMessage", "Read a pending message",
            "A worker answers. Messages still on this gateway's disk, or not yet read by the worker, are not pending.",
        ), {200: answer("The message.", "PendingMessage", headers=_ETAG)},
        (*ANY, "unknown-message", "bad-id", "unreachable"), (_ID, _ID_IN_QUERY),
    ),
    _command("DELETE", "", "cancelMessage", "Cancel a message", "The message is cancelled and will not be delivered."),
    _command("PATCH", "", "rescheduleMessage", "Reschedule a message",
             "The message has the new due time. Its content does not change.",
             **takes("Reschedule", examples=_NEW_TIMES, media_types=(_JSON, "application/merge-patch+json"))),
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
             "The message has the new due time. Use PATCH instead.", deprecated=True,
             **takes("Reschedule", examples=_NEW_TIMES)),
)  # fmt: skip
