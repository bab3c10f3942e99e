"""The interface between the console and its worker."""

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
    """Operators' controls by destination, as named in reports, as far as this worker knows them."""

    pauses: Mapping[str, Control] = {}
    rates: Mapping[str, Rate] = {}


class Recovery(TypedDict):
    """The progress of one partition's restore in rows; rate and time left are None until they are known."""

    partition: int
    done: int
    total: int
    rows_per_s: float | None
    seconds_left: float | None


class WorkerState(Protocol):
    """The worker as the console sees it. Every answer comes from memory at once, and is read once per request."""

    @property
    def app_id(self) -> str:
        """The installation's name: the prefix of its topics."""

    @property
    def partitions(self) -> int:
        """The number of partitions of the installation."""

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
        """The worker's own figures; None until it has started."""

    @property
    def reader(self) -> ProgressReader:
        """The reports of all workers."""

    def ready_reason(self) -> str | None:
        """None when the worker is recovered and serving, otherwise the reason why not."""

    def health_reason(self) -> str | None:
        """None while the worker serves, accepts requests and can write, otherwise the reason why not."""

    def unconfirmed_since_ms(self) -> int | None:
        """The time (epoch ms) since which brokers have confirmed no write of this worker; None while they do."""

    def reports(self) -> "Mapping[int, Report]":
        """The last reports of all partitions; this worker's own are included while brokers do not take them."""
        ...

    def recovery(self) -> Sequence[Recovery]:
        """The partitions that this worker is restoring; empty when there are none."""

    def trouble(self, destination: str) -> str:
        """The reason why a destination does not accept messages; empty if it does, or if this worker does not know."""

    def wanted(self) -> Wanted:
        """Operators' controls of destinations."""

    def queues(self) -> Sequence[Said]:
        """The last reports of consumers of acknowledged queues."""

    def destinations(self, partition: int) -> "dict[str, tuple[int, int | None]] | None":
        """Pending messages for each destination in a partition, and since when it is held (epoch ms; None if not held).

        None if this worker does not serve the partition.
        """

    def now_ms(self) -> int:
        """The worker's wall clock in epoch milliseconds."""
