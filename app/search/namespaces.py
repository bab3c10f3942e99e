"""The namespaces that there are for whoever asks, and where each may have messages delivered."""

from collections.abc import Iterable

import msgspec
from aiohttp import web

from app.access.roles import ASKER
from app.quotas import Quota, by_namespace
from app.reports.reader import Waiting
from app.settings import Settings
from app.web.answers import as_json
from app.web.routes import missing_of, unready
from app.web.state import WorkerState


class Namespace(msgspec.Struct, frozen=True, kw_only=True):
    """A namespace, its inputs, and the patterns of destinations that these may have, by DELAY_DESTINATIONS.

    `pending` messages wait, with so many `bytes`; `quota` is the most that may.
    """

    namespace: str
    inputs: list[str]
    destinations: list[str]
    pending: int
    bytes: int
    quota: Quota | None


def register(web_app: web.Application, state: WorkerState, settings: Settings) -> None:
    """Add GET /api/v1/namespaces to an application that has not started yet."""

    async def show(request: web.Request) -> web.Response:
        """Answer it: all namespaces, or those that somebody is bound to."""
        missing = missing_of(state)
        if missing is not None:
            return unready(state, missing)
        bound = request[ASKER].namespaces
        names = settings.namespaces.names if bound is None else bound
        told = {"app_id": state.app_id, "worker": state.worker_url, "version": state.version, "at_ms": state.now_ms()}
        found = [_namespace(settings, state, name) for name in sorted(names)]
        return as_json({**told, "pending": sum(one.pending for one in found), "namespaces": found})

    web_app.add_routes([web.get("/api/v1/namespaces", show)])


def inputs_of(settings: Settings, namespace: str) -> list[str]:
    """Return the inputs of a namespace."""
    return sorted(topic for topic, name in settings.namespaces.inputs.items() if name == namespace)


def _namespace(settings: Settings, state: WorkerState, name: str) -> Namespace:
    inputs = inputs_of(settings, name)
    waiting = [report.progress.namespaces.get(name, Waiting()) for report in state.reader.reports.values()]
    return Namespace(
        namespace=name,
        inputs=inputs,
        destinations=_patterns(settings, (*inputs, "*")),
        pending=sum(one.messages for one in waiting),
        bytes=sum(one.bytes for one in waiting),
        quota=by_namespace(settings.quotas, settings.namespaces).get(name),
    )


def _patterns(settings: Settings, sources: Iterable[str]) -> list[str]:
    rules = settings.destinations
    return list(dict.fromkeys(pattern for source in sources for pattern in rules.get(source, ())))
