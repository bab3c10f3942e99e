"""The document: the operations, and the schemas of their structures."""

import inspect
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
from aiohttp import web

from app.base.version import VERSION
from app.serve.actions.job_routes import JobList, JobRequest
from app.serve.actions.routes import ActionList, CorrectionRequest, DestinationPauseRequest, RateRequest
from app.serve.dead_letters.dead_letter import DeadLetter
from app.serve.dead_letters.dead_letters import DeadLetterCount, DeadLetterPage
from app.serve.messages import outcome, record_form, routes, short_form
from app.serve.openapi import installation
from app.serve.openapi import messages as of_messages
from app.serve.openapi.operation import Operation, OperationAnswer, Parameter
from app.serve.search import pending
from app.serve.search.namespaces import NamespaceList
from app.serve.search.page import PendingPage, SearchCount
from app.serve.search.timeline import Timeline
from app.serve.web import problem
from app.serve.web import routes as web_routes
from app.serve.web.answers import as_json
from app.serve.web.history import History
from app.serve.web.problem_types import TYPES, TypeMeaning

_REF: Final = "#/components/schemas/{name}"
_STRUCTS: Final = (
    *(short_form.ShortForm, record_form.RecordForm, routes.Reschedule, routes.MessageOutcome, routes.Messages),
    *(outcome.Outcome, pending.PendingMessage, problem.ProblemBody, TypeMeaning),
    *(web_routes.Overview, web_routes.PartitionList, web_routes.DestinationList, PendingPage, NamespaceList),
    *(DeadLetter, DeadLetterPage, History, JobList, ActionList),
    *(JobRequest, DestinationPauseRequest, RateRequest, CorrectionRequest),
    *(SearchCount, Timeline, DeadLetterCount),
)
#: All operations, of workers and gateways.
OPERATIONS: Final = (*of_messages.OPERATIONS, *installation.OPERATIONS)
_PLAIN: Final[Mapping[str, Mapping[str, Any]]] = {
    "text": {"type": "string"},
    "anything": {"type": "object"},
    "event": {"type": "object", "properties": {"event": {"type": "string"}, "data": {"type": "string"}}},
}
_NAMES: Final = {
    "Outcome": "Order",
    "MessageOutcome": "Message",
    "PendingMessage": "Pending",
    "DeadLetterPage": "DeadLetterRows",
    "ProblemBody": "Problem",
    "TypeMeaning": "Meaning",
}
_DESCRIPTION: Final = (
    "Delayed messages for Kafka, over HTTP. Workers and gateways serve this API; operations with the tag `worker` or "
    "`gateway` are served by these only. Errors are problems (RFC 9457), with the reasons of dead letters as types."
)


@lru_cache(maxsize=1)
def document() -> dict[str, Any]:
    """Return the OpenAPI document, which never changes."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Punctual",
            "version": VERSION,
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "A token, if the server has any."}
            },
        },
        "security": [{"bearer": []}, {}],
    }


def _schemas() -> dict[str, Any]:
    """Return the structures' schemas under their public names, with descriptions in one line."""
    _, found = msgspec.json.schema_components(_STRUCTS, ref_template=_REF)
    text = msgspec.json.encode(found).decode()
    for name, shown in _NAMES.items():
        text = text.replace(f'"{_REF.format(name=name)}"', f'"{_REF.format(name=shown)}"')
    schemas: dict[str, Any] = msgspec.json.decode(text)
    for name, shown in _NAMES.items():
        schemas[shown] = {**schemas.pop(name), "title": shown}
    for schema in schemas.values():
        schema["description"] = inspect.cleandoc(schema["description"]).replace("\n", " ")
    for name in ("key", "value", "headers"):  # as the routes show them
        schemas["DeadLetter"]["properties"][name] = schemas["Pending"]["properties"][name]
    schemas["Messages"]["properties"]["results"]["items"] = _schema(("Message", "Problem"))
    schemas["Problem"]["properties"]["type"]["examples"] = [kind.uri for kind in TYPES.values()]
    return dict(sorted(schemas.items()))


def _operation(operation: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": operation.description,
        "parameters": [_parameter(one) for one in operation.parameters],
        "responses": {str(answer.status): _answer(answer) for answer in operation.answers} | _problems(operation),
    }
    if operation.served_by:
        found["tags"] = [operation.served_by]
    if operation.deprecated:
        found["deprecated"] = True
    if operation.takes:
        found["requestBody"] = {
            "required": True,
            "content": {
                media_type: {"schema": _schema(operation.takes), "examples": _examples(operation.examples)}
                for media_type in operation.media_types
            },
        }
    return found


def _parameter(one: Parameter) -> dict[str, Any]:
    return {
        "name": one.name,
        "in": one.where,
        "required": one.where == "path",
        "description": one.description,
        "schema": {"type": "string", **one.schema},
        **({"example": one.example} if one.example else {}),
    }


def _answer(answer: OperationAnswer) -> dict[str, Any]:
    found: dict[str, Any] = {"description": answer.description}
    if answer.body:
        content: dict[str, Any] = {"schema": _schema(answer.body)}
        if answer.examples:
            content["examples"] = _examples(answer.examples)
        found["content"] = {answer.media_type: content}
    if answer.headers:
        found["headers"] = {
            name: {"description": said, "schema": {"type": "string"}} for name, said in answer.headers.items()
        }
    return found


def _problems(operation: Operation) -> dict[str, Any]:
    """Return the responses for an operation's problems, by status."""
    by_status: dict[int, list[str]] = {}
    for name in operation.problems:
        by_status.setdefault(TYPES[name].status, []).append(name)
    content: dict[str, Any] = {problem.MEDIA_TYPE: {"schema": _schema(("Problem",))}}
    if any(name.startswith("[") for name in operation.takes):  # a batch can be refused as a whole
        content["application/json"] = {"schema": _schema(("Messages",))}
    taken = {answer.status for answer in operation.answers}
    return {
        str(status): {
            "description": "; ".join(f"`{name}`: {TYPES[name].title}" for name in names),
            "content": content,
        }
        for status, names in sorted(by_status.items())
        if status not in taken
    }


def _schema(names: Iterable[str]) -> dict[str, Any]:
    """Return the schema of a value with any structure in `names`; a name in brackets is a list."""
    found = [_one_schema(name) for name in names]
    return found[0] if len(found) == 1 else {"anyOf": found}


def _one_schema(name: str) -> dict[str, Any]:
    if name.startswith("["):
        return {"type": "array", "items": _schema(name.strip("[]").split("|"))}
    return dict(_PLAIN[name]) if name in _PLAIN else {"$ref": _REF.format(name=name)}


def _examples(examples: Mapping[str, Any]) -> dict[str, Any]:
    return {name: {"value": value} for name, value in examples.items()}


async def show(_request: web.Request) -> web.Response:
    """Answer GET /api/v1/openapi.json with the document."""
    return as_json(document())
