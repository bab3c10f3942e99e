"""The routes of the overview, the health checks and the metrics."""

from typing import Final

import msgspec
from aiohttp import web

from app.engine.reports.state import WorkerState
from app.serve.web import metrics, problem
from app.serve.web.answers import as_json, live
from app.serve.web.overview import InstallationOverview, overview
from app.serve.web.overview_rows import DestinationRow, PartitionRow
from app.serve.web.problem import Problem
from app.serve.web.problem_types import PATH

NOT_CAUGHT_UP: Final = "reading the reports of the other workers"
DIGITS: Final = 9


class PartitionList(msgspec.Struct, kw_only=True):
    """The last known state of each partition."""

    at_ms: int
    partitions: list[PartitionRow]


class DestinationList(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Destinations with their pending messages; of one `partition`, if it is there."""

    at_ms: int
    destinations: list[DestinationRow]
    partition: int | None = None


def register(web_app: web.Application, state: WorkerState) -> None:
    """Add the API and the health checks to an application that has not started."""
    routes = StatusRoutes(state)
    web_app.middlewares.append(problem.problems)
    router = web_app.router
    router.add_get("/api/v1/overview", routes.show_overview)
    router.add_get("/api/v1/partitions", routes.show_partitions)
    router.add_get("/api/v1/partitions/{partition}/destinations", routes.show_all_destinations)
    router.add_get("/api/v1/destinations", routes.show_destinations)
    router.add_get("/health/live", live)
    router.add_get("/health/ready", routes.show_ready)
    router.add_get("/metrics", routes.show_metrics)
    router.add_get(PATH + "{name}", problem.meaning)


class StatusRoutes:
    """Answers requests from a worker's state, without changing it and without waiting."""

    def __init__(self, state: WorkerState) -> None:
        self._state = state

    async def show_overview(self, _request: web.Request) -> web.Response:
        """Answer GET /api/v1/overview with the sum of all reports."""
        return as_json(self._overview())

    async def show_partitions(self, _request: web.Request) -> web.Response:
        """Answer GET /api/v1/partitions with the known state of every partition."""
        whole = self._overview()
        return as_json(PartitionList(at_ms=whole.at_ms, partitions=whole.partitions))

    async def show_destinations(self, _request: web.Request) -> web.Response:
        """Answer GET /api/v1/destinations with the pending messages of every destination."""
        whole = self._overview()
        return as_json(DestinationList(at_ms=whole.at_ms, destinations=whole.destinations))

    async def show_all_destinations(self, request: web.Request) -> web.Response:
        """Answer GET /api/v1/partitions/{partition}/destinations with all destinations; reports have only some."""
        wanted = request.match_info["partition"]
        state = self._state
        number = int(wanted) if wanted.isascii() and wanted.isdigit() and len(wanted) <= DIGITS else -1
        destinations = state.destinations(number)
        if destinations is None:
            report = state.reader.reports.get(number)
            other = f"; last reported by {report.progress.worker}" if report is not None else ""
            raise Problem("unknown-partition", f"this worker does not serve partition {wanted[:DIGITS]}{other}")
        rows = [
            DestinationRow(destination=name, pending=pending, held_since_ms=held_ms)
            for name, (pending, held_ms) in sorted(destinations.items(), key=lambda item: (-item[1][0], item[0]))
        ]
        return as_json(DestinationList(at_ms=state.now_ms(), partition=number, destinations=rows))

    async def show_ready(self, _request: web.Request) -> web.Response:
        """Answer GET /health/ready: 200 while this worker serves, reads requests and can write, else 503 and why."""
        reason = self._state.health_reason()
        return as_json({"ready": True}) if reason is None else problem.response(not_ready(self._state, reason))

    async def show_metrics(self, _request: web.Request) -> web.Response:
        """Answer GET /metrics with this worker's metrics for Prometheus, also during recovery."""
        return web.Response(body=await metrics.exposition(self._state), headers={"Content-Type": metrics.CONTENT_TYPE})

    def _overview(self) -> InstallationOverview:
        """Return the overview. Raises Problem until all reports are read."""
        assure_reports(self._state)
        return overview_of(self._state)


def overview_of(state: WorkerState) -> InstallationOverview:
    """Return the overview of all workers from a worker's state."""
    known = state.trouble, state.wanted(), state.queues(), state.quotas
    whole = overview(state.reports(), state.partitions, state.now_ms(), *known)
    worker = {"app_id": state.app_id, "worker": state.worker_url, "version": state.version}
    return msgspec.structs.replace(whole, unconfirmed_since_ms=state.unconfirmed_since_ms(), **worker)


def missing_of(state: WorkerState) -> str | None:
    """Return why a worker does not know all workers' reports yet, or None."""
    reason = state.ready_reason()
    if reason is None and not state.reader.caught_up.is_set():
        return NOT_CAUGHT_UP
    return reason


def not_ready(state: WorkerState, reason: str) -> Problem:
    """Return the problem of a worker that is not ready, with the progress of its recovery."""
    return Problem("not-ready", reason, ready=False, recovery=state.recovery())


def assure_reports(state: WorkerState) -> None:
    """Raise Problem while a worker does not know all workers' reports."""
    missing = missing_of(state)
    if missing is not None:
        raise not_ready(state, missing)
