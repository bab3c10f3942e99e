"""The parts of a worker that all its partitions share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.base.clock import Clock
from app.engine.commit.journal import Journal
from app.engine.ingest.admission import Admission
from app.engine.ingest.quotas import Quotas
from app.engine.partition.step_builder import TopicPartitions
from app.engine.topics.internal_topics import TopicLimits
from app.settings.settings import Settings

if TYPE_CHECKING:
    from app.engine.traces.traces import Traces


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of a worker that its partitions use.

    `row_version` returns the version in which to write rows, from the newest version that a partition has; without it,
    rows have the newest version. `admission` looks destinations up on their clusters; without it, all destinations that
    the settings allow are admitted. `quotas` is None if no namespace has any. Every `check_alone_s` seconds, a
    partition checks that it is the only writer of its changelog. `traces` is None while tracing is off.
    """

    settings: Settings
    clock: Clock
    journal: Journal
    topics: TopicPartitions
    limits: TopicLimits
    row_version: Callable[[int], int] | None = None
    admission: Admission | None = None
    quotas: Quotas | None = None
    check_alone_s: float = 5.0
    traces: "Traces | None" = None
