"""Health checks and metrics of a gateway."""

from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest

from app.gateway import refusals
from app.gateway.parts import GatewayParts
from app.serve.web.answers import as_json
from app.serve.web.problem import RETRY_AFTER, Problem, response


def register(web_app: web.Application, parts: GatewayParts) -> None:
    """Add the health checks and /metrics to an application that has not started.

    For this release, the health checks also have their former paths, without /health.
    """
    health = Health(parts)
    for path in ("/health", ""):
        web_app.add_routes([web.get(f"{path}/live", health.show_live), web.get(f"{path}/ready", health.show_ready)])
    web_app.add_routes([web.get("/metrics", health.show_metrics)])


class Health:
    """Answers from the current state, without waiting."""

    def __init__(self, parts: GatewayParts) -> None:
        self._parts = parts

    async def show_live(self, _request: web.Request) -> web.Response:
        """Answer GET /health/live with 200 while the event loop runs."""
        return as_json({"live": True})

    async def show_ready(self, _request: web.Request) -> web.Response:
        """Answer GET /health/ready: 200 while Kafka or the spool accepts records, else 503 and why, with the state."""
        intake = self._parts.intake
        reasons = (intake.not_ready, *self._parts.unready)
        missing = "; ".join(filter(None, (reason() for reason in reasons))) or None
        state: dict[str, Any] = {
            "ready": missing is None,
            "state": intake.state,
            "connected": self._parts.connection.up,
            "spool_records": intake.spool_records,
            "spool_bytes": intake.spool_bytes,
            "spool_age_s": round(intake.spool_age_s, 3),
            "missing": missing,
            "trouble": intake.trouble(),
        }
        if missing is None:
            return as_json(state)
        return response(Problem("not-ready", missing, headers=RETRY_AFTER, **state))

    async def show_metrics(self, _request: web.Request) -> web.Response:
        """Answer GET /metrics with the metrics in Prometheus' text format."""
        shown = b"".join(map(generate_latest, (self._parts.metrics, refusals.METRICS, REGISTRY)))
        return web.Response(body=shown, headers={"Content-Type": CONTENT_TYPE_LATEST})
