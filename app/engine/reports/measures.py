"""A worker's own figures, in addition to its progress records, as Prometheus metrics."""

import shutil
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from app.base.clock import Clock
from app.base.histogram import Histogram
from app.base.process import free_disk
from app.engine.commit.journal import CommittedSteps
from app.engine.partition.partition import Partition
from app.engine.reports.agreement import Agreement
from app.engine.reports.due_soon import DueSoon
from app.settings.settings import Settings
from tables import keys

_HOUR_S, _DAY_S = 3_600, 24 * 3_600
#: How far ahead pending messages are counted, to the end of the hour: due times are counted by hours.
AHEAD_S: Final = (_HOUR_S, _DAY_S, 7 * _DAY_S, 30 * _DAY_S)


class Inputs(Protocol):
    """The state of the input topics."""

    def position(self, topic: str, partition: int) -> int | None:
        """Return the offset up to which all records are in the table; None while records are in flight."""

    def end(self, topic: str, partition: int) -> int | None:
        """Return the end of a topic's partition when it was last fetched; None if it was not."""


@dataclass(frozen=True, slots=True)
class Measures:
    """The sources of one worker's figures, which are few counters and exist anyway."""

    settings: Settings
    clock: Clock
    tally: CommittedSteps
    lateness: Histogram
    partitions: Mapping[int, Partition]
    inputs: Inputs
    agreement: Agreement
    minutes: DueSoon

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        yield from self._counted()
        working = [partition for partition in self.partitions.values() if partition.working]
        yield _by_due(working, self.clock.wall_ms(), self.minutes.due())
        yield self._lag(working)
        yield from self._environment()

    def _counted(self) -> Iterator[Metric]:
        events = CounterMetricFamily("delay_messages", "Changes of messages, by event.", labels=["event"])
        for kind, number in self.tally.events.items():
            events.add_metric([kind], number)
        yield events
        letters = CounterMetricFamily("delay_dead_letters", "Dead letters, by reason.", labels=["reason"])
        for reason, number in self.tally.dead_letters.items():
            letters.add_metric([reason], number)
        yield letters
        yield _histogram("delay_lateness_seconds", "How late deliveries were sent.", self.lateness)
        yield _histogram("delay_commit_seconds", "How long steps took to commit.", self.tally.commits)

    def _lag(self, working: list[Partition]) -> Metric:
        """Return the number of offsets of each input that are not in the table yet."""
        help_text = "Offsets of an input topic that are not in the table yet."
        lag = GaugeMetricFamily("delay_ingest_lag_records", help_text, labels=["topic", "partition"])
        for partition in working:
            for topic in (*self.settings.topics.inputs, self.settings.topics.forwards):
                end = self.inputs.end(topic, partition.number)
                if end is None:
                    continue
                read = self.inputs.position(topic, partition.number)
                if read is None:  # fetched records are being added to the table
                    there = partition.store.positions.get(topic)
                    read = 0 if there is None else there.offset
                lag.add_metric([topic, str(partition.number)], max(0, end - read))
        return lag

    def _environment(self) -> Iterator[Metric]:
        """Yield metrics of a worker's environment: installation, clock, disk, and other workers' settings."""
        help_text = "Number of partitions of the installation."
        yield GaugeMetricFamily("delay_partitions", help_text, self.settings.topics.partitions)
        help_text = "How far this machine's clock is ahead of the brokers'."
        yield GaugeMetricFamily("delay_clock_offset_seconds", help_text, self.clock.offset_ms / 1000)
        yield CounterMetricFamily("delay_clock_jumps", "How often this machine's clock has jumped.", self.clock.jumps)
        disk = shutil.disk_usage(self.settings.data_path)
        yield GaugeMetricFamily("delay_disk_free_bytes", "Free space on the disk of the data directory.", disk.free)
        help_text = "Free space below which the worker accepts no requests."
        yield GaugeMetricFamily("delay_disk_free_wanted_bytes", help_text, free_disk.wanted_bytes(disk.total))
        help_text = "Number of settings in which another worker differs from this one."
        differ = GaugeMetricFamily("delay_settings_differing", help_text, labels=["worker"])
        for worker, names in self.agreement.differing.items():
            differ.add_metric([worker], len(names))
        yield differ


def _histogram(name: str, help_text: str, histogram: Histogram) -> Metric:
    return HistogramMetricFamily(name, help_text, histogram.buckets(), histogram.sum)


def _by_due(working: list[Partition], now_ms: int, near: list[tuple[int, int]]) -> Metric:
    """Return the number of messages due by the end of each period ahead, in minutes and hours."""
    edges = [(now_ms + ahead_s * 1_000) // keys.BUCKET_MS for ahead_s in AHEAD_S]
    counts = Counter[int]()
    for partition in working:
        for hour, number in partition.store.counts.hours.items():
            counts[bisect_left(edges, hour)] += number
    help_text = "Messages due within le seconds, rounded up to the minute (from 3600 on, to the hour)."
    due = GaugeMetricFamily("delay_pending_by_due", help_text, labels=["le"])
    for ahead_s, number in near:
        due.add_metric([str(ahead_s)], number)
    names = [*map(str, AHEAD_S), "+Inf"]
    for name, number in zip(names, accumulate(counts[place] for place in range(len(names))), strict=True):
        due.add_metric([name], number)
    return due
