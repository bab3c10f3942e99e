"""What all partitions of a worker share."""

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

    Rows are written in the version that `row_version` returns for the newest that a partition has; without it, in the
    newest version. `admission` knows what clusters say of destinations; without it every destination that the settings
    allow is admitted. `quotas` are None where there are none. Each `check_alone_s` a partition sees that nobody else
    writes to its changelog. `traces` is None while they are off.
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
