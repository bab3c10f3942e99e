"""Prometheus metrics of this worker's partitions, next to all other metrics of the process."""

import asyncio
import itertools
from collections.abc import Iterable, Iterator

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
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


class WorkerCollector(Collector):
    """Yields the gauges of the partitions that this worker owns, so that a sum over all workers counts each once."""

    def __init__(self, state: WorkerState) -> None:
        self._state = state

    def describe(self) -> Iterator[Metric]:
        """Yield no metric in advance, because registering must not use a worker that has not started."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics; their labels may contain text from users."""
        return map(_labelled, self._collect())

    def _collect(self) -> Iterator[Metric]:
        state = self._state
        owned = frozenset(state.owned)
        mine = {number: report for number, report in state.reader.reports.items() if number in owned}
        whole = overview(mine, 0, state.now_ms())
        fresh = {number: mine[number] for number in mine if number not in whole.partitions_stale}
        yield from _gauges(overview(fresh, 0, state.now_ms()))
        built = InfoMetricFamily("delay_build", "Version of this worker, and whether it uses the native extension.")
        built.add_metric([], {"version": state.version, "kernel": "off" if native_extension.module is None else "on"})
        yield built
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


class _Collected(Collector):
    """Yields metrics that have been collected, so that another thread can write them as text."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return iter(self._metrics)


async def exposition(state: WorkerState) -> bytes:
    """Return this worker's metrics and those of the default registry in Prometheus' text format.

    A thread makes the text, because that takes ten times as long as collecting the metrics.
    """
    collected = list(WorkerCollector(state).collect())
    return await asyncio.to_thread(_text, collected)


def _text(collected: list[Metric]) -> bytes:
    own = CollectorRegistry()
    own.register(_Collected(collected))
    return generate_latest(own) + generate_latest(REGISTRY)


def _wanted(wanted: Wanted) -> Iterator[Metric]:
    """Yield pauses and rate limits, which every worker reports."""
    paused = GaugeMetricFamily("delay_destination_paused", "1 while a destination is paused.", labels=["destination"])
    for name in itertools.islice(wanted.pauses, SERIES):
        paused.add_metric([name], 1)
    if len(wanted.pauses) > SERIES:
        paused.add_metric([UNNAMED], len(wanted.pauses) - SERIES)
    yield paused
    help_text = "Rate limit of a destination, in messages per second."
    rate = GaugeMetricFamily("delay_destination_rate_per_second", help_text, labels=["destination"])
    for name, limit in itertools.islice(wanted.rates.items(), SERIES):
        rate.add_metric([name], limit.per_s)
    yield rate


def _queues(rows: Iterable[QueueRow]) -> Iterator[Metric]:
    """Yield the state of acknowledged queues, which every worker reports."""
    labels = ["topic", "group"]
    help_text = "Consumers of an acknowledged queue whose circuit breaker lets only probes pass."
    broken = GaugeMetricFamily("delay_queue_breakers_open", help_text, labels=labels)
    unacked = GaugeMetricFamily(
        "delay_queue_unacked_messages", "Messages that are handed out and not settled.", labels=labels
    )
    rows = list(rows)
    for queue in rows[:SERIES]:
        broken.add_metric([queue.topic, queue.group], queue.breakers_open)
        unacked.add_metric([queue.topic, queue.group], queue.unacked)
    if len(rows) > SERIES:
        broken.add_metric([UNNAMED, UNNAMED], sum(queue.breakers_open for queue in rows[SERIES:]))
        unacked.add_metric([UNNAMED, UNNAMED], sum(queue.unacked for queue in rows[SERIES:]))
    yield broken
    yield unacked


def _namespaces(rows: Iterable[NamespaceRow]) -> Iterator[Metric]:
    """Yield pending messages by namespace, and quotas."""
    help_text = "Pending messages of a namespace, failure callbacks included."
    messages = GaugeMetricFamily("delay_namespace_pending_messages", help_text, labels=["namespace"])
    size = GaugeMetricFamily("delay_namespace_pending_bytes", "Bytes of these messages.", labels=["namespace"])
    help_text = "IDs of a namespace that are remembered after or before their messages."
    remembered = GaugeMetricFamily("delay_namespace_remembered_ids", help_text, labels=["namespace"])
    help_text = "Quota of pending messages of a namespace."
    messages_limit = GaugeMetricFamily("delay_namespace_quota_messages", help_text, labels=["namespace"])
    help_text = "Quota of pending bytes of a namespace."
    size_limit = GaugeMetricFamily("delay_namespace_quota_bytes", help_text, labels=["namespace"])
    help_text = "Quota of remembered IDs of a namespace."
    ids_limit = GaugeMetricFamily("delay_namespace_quota_remembered_ids", help_text, labels=["namespace"])
    for row in rows:
        messages.add_metric([row.namespace], row.messages)
        size.add_metric([row.namespace], row.bytes)
        remembered.add_metric([row.namespace], row.remembered)
        if row.remembered_limit is not None:
            ids_limit.add_metric([row.namespace], row.remembered_limit)
        if row.messages_limit is not None:
            messages_limit.add_metric([row.namespace], row.messages_limit)
        if row.bytes_limit is not None:
            size_limit.add_metric([row.namespace], row.bytes_limit)
    yield from (messages, size, remembered, messages_limit, size_limit, ids_limit)


def _waiting_on_purpose(mine: InstallationOverview) -> Iterator[Metric]:
    help_text = "Due time of the oldest message that waits because of a rate limit."
    paced = GaugeMetricFamily("delay_destination_paced_due_timestamp_seconds", help_text, labels=["destination"])
    help_text = "Due time of the oldest message that waits because of a pause."
    paused = GaugeMetricFamily("delay_destination_paused_due_timestamp_seconds", help_text, labels=["destination"])
    for row in mine.destinations:
        if row.paced_since_ms is not None:
            paced.add_metric([row.destination], row.paced_since_ms / 1000)
        if row.paused is not None and row.paused.since_ms is not None:
            paused.add_metric([row.destination], row.paused.since_ms / 1000)
    yield from (paced, paused)


def _gauges(mine: InstallationOverview) -> Iterator[Metric]:
    pending = GaugeMetricFamily("delay_pending_messages", "Pending messages.", labels=["destination"])
    for row in mine.destinations:
        pending.add_metric([row.destination], row.pending)
    if mine.pending_unnamed:
        pending.add_metric([UNNAMED], mine.pending_unnamed)
    yield pending
    yield from _waiting_on_purpose(mine)
    yield GaugeMetricFamily(
        "delay_overdue_messages", "Messages more than a second overdue, and not late on purpose.", mine.overdue
    )
    held = GaugeMetricFamily(
        "delay_destination_held", "1 while a destination does not accept messages.", labels=["destination"]
    )
    for row in mine.destinations:
        if row.held_since_ms is not None:
            held.add_metric([row.destination], 1)
    yield held
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


def _oldest_s(mine: InstallationOverview) -> float:
    """Return how long the oldest message has been due, in seconds; 0 if no message is overdue or held."""
    held = [row.held_since_ms for row in mine.destinations if row.held_since_ms is not None]
    waits = any(row.paused is not None or row.paced_since_ms is not None for row in mine.destinations)
    if mine.overdue and mine.next_due_ms is not None and not waits:  # otherwise the next message may be late on purpose
        held.append(mine.next_due_ms)
    return max(0.0, (mine.at_ms - min(held, default=mine.at_ms)) / 1000)
