"""Prometheus metrics of this worker's partitions, next to all other metrics of the process."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from app.engine.reports.state import Wanted, WorkerState
from app.serve.web.overview import InstallationOverview, overview
from app.serve.web.overview_rows import NamespaceRow, QueueRow, namespace_rows, queue_rows
from punctual.cli.terminal import legible
from tables import native_extension

CONTENT_TYPE = CONTENT_TYPE_LATEST

# No topic can have this name.
UNNAMED = "(others)"
#: The maximum series of a family whose labels come from users; the rest is summed up.
SERIES = 500

#: The gauges of a namespace: name, meaning, and field of its row.
_NAMESPACE_GAUGES: Final = (
    ("delay_namespace_pending_messages", "Pending messages of a namespace, failure callbacks included.", "messages"),
    ("delay_namespace_pending_bytes", "Bytes of these messages.", "bytes"),
    (
        "delay_namespace_remembered_ids",
        "IDs of a namespace that are remembered after or before their messages.",
        "remembered",
    ),
    ("delay_namespace_quota_messages", "Quota of pending messages of a namespace.", "messages_limit"),
    ("delay_namespace_quota_bytes", "Quota of pending bytes of a namespace.", "bytes_limit"),
    ("delay_namespace_quota_remembered_ids", "Quota of remembered IDs of a namespace.", "remembered_limit"),
)


class _Collected(list[Metric], Collector):
    """Metrics that have been collected, so that another thread can write them as text."""

    def collect(self) -> Iterator[Metric]:
        return iter(self)


async def exposition(state: WorkerState) -> bytes:
    """Return this worker's metrics and those of the default registry in Prometheus' text format.

    The gauges are of the partitions that this worker owns, so that a sum over all workers counts each once. A thread
    makes the text, because that takes ten times as long as collecting the metrics.
    """
    collected = _Collected(map(_labelled, _metrics(state)))
    return await asyncio.to_thread(lambda: generate_latest(collected) + generate_latest(REGISTRY))


def _metrics(state: WorkerState) -> Iterator[Metric]:
    owned = frozenset(state.owned)
    mine = {number: report for number, report in state.reader.reports.items() if number in owned}
    stale = overview(mine, 0, state.now_ms()).partitions_stale
    fresh = {number: report for number, report in mine.items() if number not in stale}
    yield from _gauges(overview(fresh, 0, state.now_ms()))
    build = InfoMetricFamily("delay_build", "Version of this worker, and whether it uses the native extension.")
    build.add_metric([], {"version": state.version, "kernel": "off" if native_extension.module is None else "on"})
    yield build
    left = sum(row["total"] - row["done"] for row in state.recovery())
    if state.measures is not None:
        yield from state.measures.collect()
    yield from _wanted(state.wanted())
    yield from _namespaces(namespace_rows(fresh.values(), state.quotas))
    yield from _queues(queue_rows(state.queues(), state.now_ms()))
    yield GaugeMetricFamily("delay_recovery_remaining_records", "Changelog records still to be restored.", left)


def _labelled(metric: Metric) -> Metric:
    """Return a metric whose labels have no control characters: Prometheus drops all metrics for a NUL in one label."""
    metric.samples = [
        sample
        if all(map(str.isprintable, sample.labels.values()))
        else sample._replace(labels={name: legible(value) for name, value in sample.labels.items()})
        for sample in metric.samples
    ]
    return metric


def _gauge(
    name: str, help_text: str, labels: Sequence[str], samples: Iterable[tuple[Sequence[str], float | None]]
) -> GaugeMetricFamily:
    """Return a gauge with the values of its labels and the number of each sample; None is no sample."""
    family = GaugeMetricFamily(name, help_text, labels=labels)
    for values, number in samples:
        if number is not None:
            family.add_metric(values, number)
    return family


def _wanted(wanted: Wanted) -> Iterator[Metric]:
    """Yield pauses and rate limits, which every worker reports."""
    pauses: list[tuple[Sequence[str], float]] = [([name], 1) for name in list(wanted.pauses)[:SERIES]]
    if len(wanted.pauses) > SERIES:
        pauses.append(([UNNAMED], len(wanted.pauses) - SERIES))
    yield _gauge("delay_destination_paused", "1 while a destination is paused.", ["destination"], pauses)
    help_text = "Rate limit of a destination, in messages per second."
    rates = (([name], limit.per_s) for name, limit in list(wanted.rates.items())[:SERIES])
    yield _gauge("delay_destination_rate_per_second", help_text, ["destination"], rates)


def _queues(queues: Sequence[QueueRow]) -> Iterator[Metric]:
    """Yield the state of acknowledged queues, which every worker reports."""
    rows = [([queue.topic, queue.group], queue.breakers_open, queue.unacked) for queue in queues[:SERIES]]
    if rest := queues[SERIES:]:
        unacked = sum(queue.unacked for queue in rest)
        rows.append(([UNNAMED, UNNAMED], sum(queue.breakers_open for queue in rest), unacked))
    labels = ["topic", "group"]
    help_text = "Consumers of an acknowledged queue whose circuit breaker lets only probes pass."
    yield _gauge("delay_queue_breakers_open", help_text, labels, ((names, broken) for names, broken, _ in rows))
    help_text = "Messages that are handed out and not settled."
    yield _gauge("delay_queue_unacked_messages", help_text, labels, ((names, unacked) for names, _, unacked in rows))


def _namespaces(rows: Sequence[NamespaceRow]) -> Iterator[Metric]:
    for name, help_text, field in _NAMESPACE_GAUGES:
        samples = (([row.namespace], getattr(row, field)) for row in rows)
        yield _gauge(name, help_text, ["namespace"], samples)


def _gauges(mine: InstallationOverview) -> Iterator[Metric]:
    def by_destination(name: str, help_text: str, numbers: Iterable[float | None]) -> Metric:
        names = ([row.destination] for row in mine.destinations)
        return _gauge(name, help_text, ["destination"], zip(names, numbers, strict=True))

    rows = mine.destinations
    pending = by_destination("delay_pending_messages", "Pending messages.", (row.pending for row in rows))
    if mine.pending_unnamed:
        pending.add_sample("delay_pending_messages", {"destination": UNNAMED}, mine.pending_unnamed)
    yield pending
    help_text = "Due time of the oldest message that waits because of a rate limit."
    paced_s = (_seconds(row.paced_since_ms) for row in rows)
    yield by_destination("delay_destination_paced_due_timestamp_seconds", help_text, paced_s)
    help_text = "Due time of the oldest message that waits because of a pause."
    paused_s = (None if row.paused is None else _seconds(row.paused.since_ms) for row in rows)
    yield by_destination("delay_destination_paused_due_timestamp_seconds", help_text, paused_s)
    help_text = "Messages more than a second overdue, and not late on purpose."
    yield GaugeMetricFamily("delay_overdue_messages", help_text, mine.overdue)
    help_text = "1 while a destination does not accept messages."
    yield by_destination(
        "delay_destination_held", help_text, (None if row.held_since_ms is None else 1 for row in rows)
    )
    help_text = "Lateness of the oldest overdue message that is not late on purpose."
    yield GaugeMetricFamily("delay_oldest_overdue_seconds", help_text, _oldest_s(mine))
    help_text = "Messages that wait for their next HTTP attempt."
    yield GaugeMetricFamily("delay_retrying_messages", help_text, mine.retrying)
    owner = InfoMetricFamily("delay_partition_owner", "The partitions that this worker owns.", labels=["partition"])
    for partition in mine.partitions:
        owner.add_metric([str(partition.partition)], {"worker": partition.worker or ""})
    yield owner
    if mine.next_due_ms is not None:
        help_text = "Due time of the next message."
        yield GaugeMetricFamily("delay_next_due_timestamp_seconds", help_text, mine.next_due_ms / 1000)


def _seconds(moment_ms: int | None) -> float | None:
    return None if moment_ms is None else moment_ms / 1000


def _oldest_s(mine: InstallationOverview) -> float:
    """Return how long the oldest message has been due, in seconds; 0 if no message is overdue or held."""
    held = [row.held_since_ms for row in mine.destinations if row.held_since_ms is not None]
    waits = any(row.paused is not None or row.paced_since_ms is not None for row in mine.destinations)
    if mine.overdue and mine.next_due_ms is not None and not waits:  # otherwise the next message may be late on purpose
        held.append(mine.next_due_ms)
    return max(0.0, (mine.at_ms - min(held, default=mine.at_ms)) / 1000)
