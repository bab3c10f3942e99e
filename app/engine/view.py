"""The state of a worker for the console and the API; every answer comes from memory at once."""

from collections.abc import Collection, Mapping, Sequence

from app.base.clock import Clock
from app.base.version import VERSION
from app.engine.assembly import Parts
from app.engine.partition.partition import State
from app.engine.reports.measures import Measures
from app.engine.reports.queues import Said
from app.engine.reports.reader import ProgressReader, Report
from app.engine.reports.standstill import TOO_LONG_S
from app.engine.reports.state import Recovery, Wanted
from app.engine.steps.route import HTTP, name_of
from app.settings.quotas import of_all
from app.settings.settings import Settings
from punctual.contract.destination import named
from tables import DelayTable


class EngineView:
    """The state of one worker, as app/engine/reports/state.py declares it."""

    #: None while the worker starts or stops.
    parts: Parts | None = None

    def __init__(self, settings: Settings, clock: Clock, table: DelayTable, reader: ProgressReader) -> None:
        """Show a worker with these `settings` and this `clock`, its `table`, and the reports that `reader` has."""
        self.settings, self.clock, self.table, self.reader = settings, clock, table, reader
        self.quotas = of_all(settings.topics.quotas, settings.topics.namespaces)

    @property
    def app_id(self) -> str:
        """The installation's name."""
        return self.settings.topics.app_id

    @property
    def partitions(self) -> int:
        """How many partitions the installation has."""
        return self.settings.topics.partitions

    @property
    def owned(self) -> Collection[int]:
        """The numbers of the partitions that this worker owns."""
        return self.parts.ownership.partitions.keys() if self.parts is not None else ()

    @property
    def worker_url(self) -> str:
        """The address that this worker writes into its progress reports."""
        return self.settings.process.url

    @property
    def version(self) -> str:
        """The version of this worker."""
        return VERSION

    @property
    def measures(self) -> Measures | None:
        """The worker's own counters, None until it has started."""
        return self.parts.measures if self.parts is not None else None

    def destinations(self, partition: int) -> dict[str, tuple[int, int | None]] | None:
        """Return the pending messages of each destination in a partition, and since when it is held (epoch ms or None).

        None if the partition is not served here.
        """
        served = self.parts.ownership.partitions.get(partition) if self.parts is not None else None
        if served is None or not served.working:
            return None
        held = served.in_flight.held_ms()
        counts = served.store.counts.destinations
        return {to: (counts.get(to, 0), held.get(to)) for to in {**counts, **held} if to}

    def now_ms(self) -> int:
        """Return the worker's wall clock in epoch milliseconds."""
        return self.clock.wall_ms()

    def trouble(self, destination: str) -> str:
        """Return why a destination does not take this worker's messages, empty if it does or if that is not known."""
        if self.parts is None:
            return ""
        due, dispatcher = self.parts.due, self.parts.dispatcher
        held = {route for partition in due.partitions.values() for route in partition.in_flight.held_routes()}
        routes = (route for route in held if name_of(route) == destination)
        reasons = (due.http.trouble(route) if route[2] == HTTP else dispatcher.trouble(route) for route in routes)
        return next(filter(None, reasons), "")

    def wanted(self) -> Wanted:
        """Return the pauses and rate limits of destinations, as this worker has read them."""
        if self.parts is None:
            return Wanted()
        throttle = self.parts.due.throttle
        pauses = {named(*to): control for to in throttle.pauses if (control := throttle.paused(to)) is not None}
        return Wanted(pauses, {named(*to): rate for to, rate in throttle.rates.items()})

    def queues(self) -> list[Said]:
        """Return the last reports of the consumers of acknowledged queues."""
        return self.parts.queues.known if self.parts is not None else []

    def ready_reason(self) -> str | None:
        """Return None when the worker has recovered and serves, else a sentence with the reason why not."""
        if self.parts is None:
            return "starting: waiting for Kafka"
        ownership = self.parts.ownership
        if ownership.generation < 0:
            return "waiting for the group to assign partitions"
        for number, partition in sorted(ownership.partitions.items()):
            if partition.state is State.STOPPED:
                return f"partition {number} is stopped: {partition.reason}"
            if partition.state is State.RESTORING:
                progress = self.table.progress.get(number)
                return str(progress) if progress is not None else f"opening partition {number}"
        return None

    def health_reason(self) -> str | None:
        """Return None while the worker serves, reads and writes, else a sentence with the reason why not."""
        return self.ready_reason() or (self.parts.standstill.reason() if self.parts is not None else None)

    def unconfirmed_since_ms(self) -> int | None:
        """Return since when (epoch ms) no broker has confirmed this worker's writes, None while brokers do."""
        unconfirmed_s = self.parts.standstill.unconfirmed_s() if self.parts is not None else 0
        return self.clock.wall_ms() - round(unconfirmed_s * 1_000) if unconfirmed_s > TOO_LONG_S else None

    def reports(self) -> Mapping[int, Report]:
        """Return the last reports of all partitions; while writes are unconfirmed, its own are the current state."""
        reports = self.reader.reports
        if self.parts is None or self.unconfirmed_since_ms() is None:
            return reports
        return {**reports, **self.parts.progress.own(self.clock.now_ms())}

    def recovery(self) -> Sequence[Recovery]:
        """Return the partitions that this worker is restoring."""
        return [
            Recovery(
                partition=progress.partition,
                done=progress.position - progress.begin,
                total=progress.end - progress.begin,
                rows_per_s=progress.rows_per_s,
                seconds_left=progress.seconds_left,
            )
            for progress in self.table.progress.values()
        ]
