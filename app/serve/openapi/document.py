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
from app.serve.openapi import messages as messages_operations
from app.serve.openapi.messages import Operation, OperationAnswer, Parameter
from app.serve.search import pending
from app.serve.search.namespaces import NamespaceList
from app.serve.search.page import PendingPage, SearchCount
from app.serve.search.timeline import Timeline
from app.serve.web import problem
from app.serve.web import routes as web_routes
from app.serve.web.answers import as_json
from app.serve.web.history import History
from app.serve.web.problem_types import TYPES, ProblemType

_REF: Final = "#/components/schemas/{name}"
_STRUCTS: Final = (
    *(short_form.ShortForm, record_form.RecordForm, routes.Reschedule, routes.MessageOutcome, routes.Messages),
    *(outcome.Outcome, pending.PendingMessage, problem.ProblemBody, ProblemType),
    *(web_routes.Overview, web_routes.PartitionList, web_routes.DestinationList, PendingPage, NamespaceList),
    *(DeadLetter, DeadLetterPage, History, JobList, ActionList),
    *(JobRequest, DestinationPauseRequest, RateRequest, CorrectionRequest),
    *(SearchCount, Timeline, DeadLetterCount),
)
#: All operations, of workers and gateways.
OPERATIONS: Final = (*messages_operations.OPERATIONS, *installation.OPERATIONS)
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
    "ProblemType": "Meaning",
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
    _, components = msgspec.json.schema_components(_STRUCTS, ref_template=_REF)
    text = msgspec.json.encode(components).decode()
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
    schemas["Problem"]["properties"]["type"]["examples"] = [kind.type for kind in TYPES.values()]
    return dict(sorted(schemas.items()))


def _operation(operation: Operation) -> dict[str, Any]:
    document: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": operation.description,
        "parameters": [_parameter(parameter) for parameter in operation.parameters],
        "responses": {str(answer.status): _answer(answer) for answer in operation.answers} | _problems(operation),
    }
    if operation.served_by:
        document["tags"] = [operation.served_by]
    if operation.deprecated:
        document["deprecated"] = True
    if operation.takes:
        document["requestBody"] = {
            "required": True,
            "content": {
                media_type: {"schema": _schema(operation.takes), "examples": _examples(operation.examples)}
                for media_type in operation.media_types
            },
        }
    return document


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.where,
        "required": parameter.where == "path",
        "description": parameter.description,
        "schema": {"type": "string", **parameter.schema},
        **({"example": parameter.example} if parameter.example else {}),
    }


def _answer(answer: OperationAnswer) -> dict[str, Any]:
    examples = {"examples": _examples(answer.examples)} if answer.examples else {}
    headers = {name: {"description": text, "schema": {"type": "string"}} for name, text in answer.headers.items()}
    return {
        "description": answer.description,
        "content": {answer.media_type: {"schema": _schema(answer.body)} | examples},
        **({"headers": headers} if headers else {}),
    }


def _problems(operation: Operation) -> dict[str, Any]:
    """Return the responses for an operation's problems, by status."""
    by_status: dict[int, list[str]] = {}
    for name in operation.problems:
        by_status.setdefault(TYPES[name].status, []).append(name)
    content: dict[str, Any] = {problem.MEDIA_TYPE: {"schema": _schema(("Problem",))}}
    if any(name.startswith("[") for name in operation.takes):  # a batch can be refused as a whole
        content["application/json"] = {"schema": _schema(("Messages",))}
    successes = {answer.status for answer in operation.answers}
    return {
        str(status): {
            "description": "; ".join(f"`{name}`: {TYPES[name].title}" for name in names),
            "content": content,
        }
        for status, names in sorted(by_status.items())
        if status not in successes
    }


def _schema(names: Iterable[str]) -> dict[str, Any]:
    """Return the schema of a value with any structure in `names`; a name in brackets is a list."""
    schemas: list[dict[str, Any]] = []
    for name in names:
        if name.startswith("["):
            schemas.append({"type": "array", "items": _schema(name.strip("[]").split("|"))})
        else:
            schemas.append(dict(_PLAIN[name]) if name in _PLAIN else {"$ref": _REF.format(name=name)})
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _examples(examples: Mapping[str, Any]) -> dict[str, Any]:
    return {name: {"value": value} for name, value in examples.items()}


async def show(_request: web.Request) -> web.Response:
    """Answer GET /api/v1/openapi.json with the document."""
    return as_json(document())
