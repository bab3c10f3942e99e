"""The document: the operations, and the schemas of their structures."""

import inspect
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
from app.serve.openapi import installation, messages
from app.serve.openapi.messages import REF, schema
from app.serve.search import pending
from app.serve.search.namespaces import NamespaceList
from app.serve.search.page import PendingPage, SearchCount
from app.serve.search.timeline import Timeline
from app.serve.web import problem
from app.serve.web import routes as web_routes
from app.serve.web.answers import as_json
from app.serve.web.history import History
from app.serve.web.overview import InstallationOverview
from app.serve.web.problem_types import TYPES, ProblemType

_STRUCTS: Final = (
    *(short_form.ShortForm, record_form.RecordForm, routes.Reschedule, routes.MessageOutcome, routes.Messages),
    *(outcome.Outcome, pending.PendingMessage, problem.ProblemBody, ProblemType),
    *(InstallationOverview, web_routes.PartitionList, web_routes.DestinationList, PendingPage, NamespaceList),
    *(DeadLetter, DeadLetterPage, History, JobList, ActionList),
    *(JobRequest, DestinationPauseRequest, RateRequest, CorrectionRequest),
    *(SearchCount, Timeline, DeadLetterCount),
)
_DESCRIPTION: Final = (
    "Delayed messages for Kafka, over HTTP. Workers and gateways serve this API; operations with the tag `worker` or "
    "`gateway` are served by these only. Errors are problems (RFC 9457), with the reasons of dead letters as types."
)


@lru_cache(maxsize=1)
def document() -> dict[str, Any]:
    """Return the OpenAPI document, which never changes."""
    paths: dict[str, dict[str, Any]] = {}
    for path, method, about in (*messages.OPERATIONS, *installation.OPERATIONS):
        paths.setdefault(path, {})[method] = about
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
    """Return the structures' schemas, with descriptions in one line."""
    schemas: dict[str, Any] = msgspec.json.schema_components(_STRUCTS, ref_template=REF)[1]
    for one in schemas.values():
        one["description"] = inspect.cleandoc(one["description"]).replace("\n", " ")
    for name in ("key", "value", "headers"):  # as the routes show them
        schemas["DeadLetter"]["properties"][name] = schemas["PendingMessage"]["properties"][name]
    schemas["InstallationOverview"]["required"] += ["app_id", "worker", "version"]
    schemas["Messages"]["properties"]["results"]["items"] = schema(("MessageOutcome", "ProblemBody"))
    schemas["ProblemBody"]["properties"]["type"]["examples"] = [kind.type for kind in TYPES.values()]
    return dict(sorted(schemas.items()))


async def show(_request: web.Request) -> web.Response:
    """Answer GET /api/v1/openapi.json with the document."""
    return as_json(document())
