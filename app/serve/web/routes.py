"""The routes of the overview, the health checks and the metrics."""

from typing import Final

import msgspec
from aiohttp import web

from app.engine.reports.state import WorkerState
from app.serve.web import guard, metrics, problem
from app.serve.web.answers import as_json
from app.serve.web.overview import InstallationOverview, overview
from app.serve.web.overview_rows import DestinationRow
from app.serve.web.problem import Problem
from app.serve.web.problem_types import PATH

NOT_CAUGHT_UP: Final = "reading the reports of the other workers"
RETRY_AFTER: Final = {"Retry-After": "2"}
DIGITS: Final = 9


def register(web_app: web.Application, state: WorkerState) -> None:
    """Add the API and the health checks to an application that has not started yet."""
    routes = StatusRoutes(state)
    web_app.middlewares.append(problem.problems)
    web_app.on_response_prepare.append(guard.secure)
    web_app.add_routes(
        [
            web.get("/api/v1/overview", routes.show_overview),
            web.get("/api/v1/partitions", routes.show_partitions),
            web.get("/api/v1/partitions/{partition}/destinations", routes.show_all_destinations),
            web.get("/api/v1/destinations", routes.show_destinations),
            web.get("/health/live", routes.show_live),
            web.get("/health/ready", routes.show_ready),
            web.get("/metrics", routes.show_metrics),
            web.get(PATH + "{name}", problem.meaning),
        ]
    )


class StatusRoutes:
    """Answers requests from a worker's state; it reads only, and never waits for anything."""

    def __init__(self, state: WorkerState) -> None:
        self._state = state

    async def show_overview(self, _request: web.Request) -> web.Response:
        """Answer GET /api/v1/overview: all that reports tell."""
        missing = missing_of(self._state)
        if missing is not None:
            return unready(self._state, missing)
        state = self._state
        worker = {"app_id": state.app_id, "worker": state.worker_url, "version": state.version}
        return as_json({**worker, **msgspec.structs.asdict(self._overview())})

    async def show_partitions(self, _request: web.Request) -> web.Response:
        """Answer GET /api/v1/partitions: what is known of every partition."""
        return self._part("partitions")

    async def show_destinations(self, _request: web.Request) -> web.Response:
        """Answer GET /api/v1/destinations: what is pending for every destination."""
        return self._part("destinations")

    async def show_all_destinations(self, request: web.Request) -> web.Response:
        """Answer GET /api/v1/partitions/{partition}/destinations: all of them, which reports have no room for."""
        wanted = request.match_info["partition"]
        state = self._state
        number = int(wanted) if wanted.isascii() and wanted.isdigit() and len(wanted) <= DIGITS else -1
        found = state.destinations(number)
        if found is None:
            report = state.reader.reports.get(number)
            other = f"; last reported by {report.progress.worker}" if report is not None else ""
            raise Problem("unknown-partition", f"this worker does not serve partition {wanted[:DIGITS]}{other}")
        rows = [
            DestinationRow(destination=name, pending=pending, held_since_ms=held_ms)
            for name, (pending, held_ms) in sorted(found.items(), key=lambda one: (-one[1][0], one[0]))
        ]
        return as_json({"at_ms": state.now_ms(), "partition": number, "destinations": rows})

    async def show_live(self, _request: web.Request) -> web.Response:
        """Answer GET /health/live: 200 as long as the process answers at all."""
        return as_json({"live": True})

    async def show_ready(self, _request: web.Request) -> web.Response:
        """Answer GET /health/ready: 200 while this worker serves, takes requests and can write, else 503 and why."""
        reason = self._state.health_reason()
        return as_json({"ready": True}) if reason is None else unready(self._state, reason)

    async def show_metrics(self, _request: web.Request) -> web.Response:
        """Answer GET /metrics: this worker's own numbers for Prometheus, also while it recovers."""
        return web.Response(body=await metrics.exposition(self._state), headers={"Content-Type": metrics.CONTENT_TYPE})

    def _part(self, name: str) -> web.Response:
        missing = missing_of(self._state)
        if missing is not None:
            return unready(self._state, missing)
        whole = self._overview()
        return as_json({"at_ms": whole.at_ms, name: getattr(whole, name)})

    def _overview(self) -> InstallationOverview:
        return overview_of(self._state)


def overview_of(state: WorkerState) -> InstallationOverview:
    """Return what a worker knows of all workers."""
    told = state.trouble, state.wanted(), state.queues(), state.quotas
    found = overview(state.reports(), state.partitions, state.now_ms(), *told)
    since_ms = state.unconfirmed_since_ms()
    return found if since_ms is None else msgspec.structs.replace(found, unconfirmed_since_ms=since_ms)


def missing_of(state: WorkerState) -> str | None:
    """Return why a worker cannot tell of all workers yet, or None."""
    reason = state.ready_reason()
    if reason is None and not state.reader.caught_up.is_set():
        return NOT_CAUGHT_UP
    return reason


def unready(state: WorkerState, reason: str) -> web.Response:
    """Return the answer of a worker that is not ready: a problem that also says how far it is."""
    return problem.response(Problem("not-ready", reason, headers=RETRY_AFTER, ready=False, recovery=state.recovery()))
