"""The route of namespaces: pending messages and allowed destinations of each namespace that the user may see."""

import msgspec
from aiohttp import web

from app.engine.reports.state import WorkerState
from app.serve.access.caller import CALLER
from app.serve.web.answers import as_json
from app.serve.web.overview_rows import NamespaceRow, namespace_rows
from app.serve.web.routes import assure_reports
from app.settings.destinations import DestinationSettings
from app.settings.topics import TopicSettings


class NamespaceDetails(NamespaceRow, frozen=True, kw_only=True):
    """A namespace's row in the overview, its inputs, and the patterns of topics to which these may deliver."""

    inputs: list[str]
    destinations: list[str]


class NamespaceList(msgspec.Struct, kw_only=True):
    """Namespaces, with their inputs, destinations and pending messages."""

    app_id: str
    worker: str
    version: str
    at_ms: int
    pending: int
    namespaces: list[NamespaceDetails]


def register(
    web_app: web.Application, state: WorkerState, topics: TopicSettings, destinations: DestinationSettings
) -> None:
    """Add GET /api/v1/namespaces to an application that has not started."""

    async def show(request: web.Request) -> web.Response:
        """Answer with all namespaces, or with the namespaces that the user is bound to."""
        assure_reports(state)
        bound = request[CALLER].namespaces
        rows = namespace_rows(state.reader.reports.values(), state.quotas)
        namespaces = [_described(topics, destinations, row) for row in rows if bound is None or row.namespace in bound]
        answer = NamespaceList(
            app_id=state.app_id,
            worker=state.worker_url,
            version=state.version,
            at_ms=state.now_ms(),
            pending=sum(one.messages for one in namespaces),
            namespaces=namespaces,
        )
        return as_json(answer)

    web_app.add_routes([web.get("/api/v1/namespaces", show)])


def inputs_of(topics: TopicSettings, namespace: str) -> list[str]:
    """Return the input topics of a namespace."""
    return sorted(topic for topic, name in topics.namespaces.inputs.items() if name == namespace)


def _described(topics: TopicSettings, settings: DestinationSettings, row: NamespaceRow) -> NamespaceDetails:
    inputs, patterns = inputs_of(topics, row.namespace), settings.allowed_topics
    destinations = dict.fromkeys(pattern for source in (*inputs, "*") for pattern in patterns.get(source, ()))
    return NamespaceDetails(**msgspec.structs.asdict(row), inputs=inputs, destinations=list(destinations))
