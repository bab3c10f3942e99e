"""Counters of a gateway since its start, as Prometheus metrics."""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from app.base.histogram import Histogram
from app.gateway.spool.submission import Outcome, Refused

_BOUNDS_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class SpoolTally:
    """Counts records by outcome."""

    def __init__(self) -> None:
        """Begin with zeros."""
        self.handed_in = self.sent = self.spooled = self.refused = self.full = self.drained = self.buried = 0
        self.latency = Histogram(_BOUNDS_S)

    def produced(self, seconds: float, outcomes: Sequence[Outcome]) -> None:
        """Count a batch with these outcomes, `seconds` after its first record arrived."""
        refused = sum(isinstance(outcome, Refused) for outcome in outcomes)
        self.refused += refused
        self.sent += len(outcomes) - refused
        self.latency.add(seconds, len(outcomes))


class SpoolState(Protocol):
    """The state of the spool."""

    @property
    def state(self) -> str:
        """Where records go: `up`, `spooling` or `draining`."""

    @property
    def spool_records(self) -> int:
        """The number of records in the spool."""

    @property
    def spool_bytes(self) -> int:
        """The bytes in the spool."""

    @property
    def spool_age_s(self) -> float:
        """The age of the oldest record in seconds."""


class TallyCollector(Collector):
    """Yields a gateway's metrics."""

    def __init__(self, tally: SpoolTally, intake: SpoolState, most_bytes: int) -> None:
        """Report `tally`, and the state of `intake`, whose spool has `most_bytes` at most."""
        self._tally, self._intake, self._most_bytes = tally, intake, most_bytes

    def describe(self) -> Iterator[Metric]:
        """Yield no metric in advance."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        tally, intake = self._tally, self._intake
        help_text = "Records received, by their first outcome."
        records = CounterMetricFamily("delay_gateway_records", help_text, labels=["outcome"])
        for name in ("sent", "spooled", "refused", "full"):
            records.add_metric([name], getattr(tally, name))
        yield records
        help_text = "Spooled records that have been written to Kafka."
        yield CounterMetricFamily("delay_gateway_drained_records", help_text, tally.drained)
        help_text = "Spooled records that Kafka refused and that became dead letters."
        yield CounterMetricFamily("delay_gateway_dead_letters", help_text, tally.buried)
        help_text = "Time from the arrival of a record until Kafka acknowledged it."
        latency = tally.latency
        yield HistogramMetricFamily("delay_gateway_produce_seconds", help_text, latency.buckets(), latency.sum)
        state = GaugeMetricFamily("delay_gateway_state", "1 for the current state.", labels=["state"])
        for name in ("up", "spooling", "draining"):
            state.add_metric([name], intake.state == name)
        yield state
        yield GaugeMetricFamily("delay_gateway_spool_records", "Records in the spool.", intake.spool_records)
        yield GaugeMetricFamily("delay_gateway_spool_bytes", "Bytes in the spool.", intake.spool_bytes)
        help_text = "Maximum bytes in the spool."
        yield GaugeMetricFamily("delay_gateway_spool_limit_bytes", help_text, self._most_bytes)
        help_text = "Age of the oldest record in the spool."
        yield GaugeMetricFamily("delay_gateway_spool_age_seconds", help_text, intake.spool_age_s)
