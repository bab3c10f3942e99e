"""What the console asks of the worker that it runs in."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypedDict

import msgspec

from app.engine.reports.queues import Said
from app.engine.reports.reader import ProgressReader, Report
from app.engine.throttle.control import Control
from punctual.contract.rate import Rate

if TYPE_CHECKING:
    from app.engine.reports.measures import Measures
    from app.settings.quotas import Quota


class Wanted(msgspec.Struct, frozen=True):
    """What operators want of destinations, by the names that reports give them, as a worker knows it."""

    pauses: Mapping[str, Control] = {}
    rates: Mapping[str, Rate] = {}


class Recovery(TypedDict):
    """How far one partition's restore is, in rows; the rate and the time left are None until they are known."""

    partition: int
    done: int
    total: int
    rows_per_s: float | None
    seconds_left: float | None


class WorkerState(Protocol):
    """The worker as the console sees it. Every answer comes from memory at once: each is asked once a request."""

    @property
    def app_id(self) -> str:
        """The installation's name: the prefix of its topics."""

    @property
    def partitions(self) -> int:
        """How many partitions the installation has."""

    @property
    def owned(self) -> Collection[int]:
        """The numbers of the partitions that this worker owns."""

    @property
    def worker_url(self) -> str:
        """The address that this worker writes into its progress reports."""

    @property
    def version(self) -> str:
        """The version of this worker."""

    @property
    def quotas(self) -> "Mapping[str, Quota | None]":
        """The namespaces of the installation, and their quotas if they have some."""

    @property
    def measures(self) -> "Measures | None":
        """What the worker counts of its own; None until it has started."""

    @property
    def reader(self) -> ProgressReader:
        """The reports of all workers."""

    def ready_reason(self) -> str | None:
        """None when recovered and serving, else a sentence that says what is missing."""

    def health_reason(self) -> str | None:
        """None while it serves, takes requests and can write, else a sentence that says what is missing."""

    def unconfirmed_since_ms(self) -> int | None:
        """Since when no broker has confirmed what this worker writes (epoch ms); None while they do."""

    def reports(self) -> "Mapping[int, Report]":
        """The last reports of all partitions, this worker's also while no broker takes them."""
        ...

    def recovery(self) -> Sequence[Recovery]:
        """The partitions that this worker is restoring; empty when there are none."""

    def trouble(self, destination: str) -> str:
        """Why a destination does not take what this worker has for it; empty if it does, or that is not known here."""

    def wanted(self) -> Wanted:
        """What operators want of destinations."""

    def queues(self) -> Sequence[Said]:
        """What consumers of acknowledged queues have said last of themselves."""

    def destinations(self, partition: int) -> "dict[str, tuple[int, int | None]] | None":
        """What waits for each destination in a partition, and since when it is held (epoch ms; None if it is not).

        None if this worker does not serve the partition.
        """

    def now_ms(self) -> int:
        """The worker's wall clock in epoch milliseconds."""
