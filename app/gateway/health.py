"""Health checks and metrics of a gateway."""

from collections.abc import Iterator
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from app.gateway.middlewares import METRICS
from app.gateway.parts import GatewayParts
from app.serve.web.answers import as_json, live
from app.serve.web.problem import Problem, response


def register(web_app: web.Application, parts: GatewayParts) -> None:
    """Add the health checks and /metrics to an application that has not started.

    For this release, the health checks also have their former paths, without /health.
    """
    health = Health(parts)
    for path in ("/health", ""):
        web_app.add_routes([web.get(f"{path}/live", live), web.get(f"{path}/ready", health.show_ready)])
    web_app.add_routes([web.get("/metrics", health.show_metrics)])


class Health(Collector):
    """Answers from the current state, without waiting, and yields the metrics of the intake."""

    def __init__(self, parts: GatewayParts) -> None:
        self._parts = parts

    async def show_ready(self, _request: web.Request) -> web.Response:
        """Answer GET /health/ready: 200 while Kafka or the spool accepts records, else 503 and why, with the state."""
        intake = self._parts.intake
        reasons = (intake.not_ready, *self._parts.unready)
        missing = "; ".join(filter(None, (reason() for reason in reasons))) or None
        state: dict[str, Any] = {
            "ready": missing is None,
            "state": intake.state,
            "connected": self._parts.connection.up,
            "spool_records": intake.spool.count,
            "spool_bytes": intake.spool.bytes,
            "spool_age_s": round(intake.spool.age_s, 3),
            "missing": missing,
            "trouble": intake.trouble(),
        }
        if missing is None:
            return as_json(state)
        return response(Problem("not-ready", missing, **state))

    async def show_metrics(self, _request: web.Request) -> web.Response:
        """Answer GET /metrics with the metrics in Prometheus' text format."""
        text = b"".join(generate_latest(one) for one in (self, METRICS, REGISTRY))
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics of the intake."""
        intake, tally = self._parts.intake, self._parts.intake.tally
        most_bytes = self._parts.settings.gateway.spool_bytes
        help_text = "Records received, by their first outcome."
        records = CounterMetricFamily("delay_gateway_records", help_text, labels=["outcome"])
        for name in ("sent", "spooled", "refused", "full"):
            records.add_metric([name], getattr(tally, name))
        yield records
        help_text = "Spooled records that have been written to Kafka."
        yield CounterMetricFamily("delay_gateway_drained_records", help_text, tally.drained)
        help_text = "Spooled records that Kafka refused and that became dead letters."
        yield CounterMetricFamily("delay_gateway_dead_letters", help_text, tally.buried)
        help_text, latency = "Time from the arrival of a record until Kafka acknowledged it.", tally.latency
        yield HistogramMetricFamily("delay_gateway_produce_seconds", help_text, latency.buckets(), latency.sum)
        state = GaugeMetricFamily("delay_gateway_state", "1 for the current state.", labels=["state"])
        for name in ("up", "spooling", "draining"):
            state.add_metric([name], intake.state == name)
        yield state
        for name, help_text, number in (
            ("delay_gateway_spool_records", "Records in the spool.", intake.spool.count),
            ("delay_gateway_spool_bytes", "Bytes in the spool.", intake.spool.bytes),
            ("delay_gateway_spool_limit_bytes", "Maximum bytes in the spool.", most_bytes),
            ("delay_gateway_spool_age_seconds", "Age of the oldest record in the spool.", intake.spool.age_s),
        ):
            yield GaugeMetricFamily(name, help_text, number)
