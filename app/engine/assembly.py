"""Assembly of a worker's parts, each after the parts that it needs."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.base.clock import Clock
from app.base.process.fatal import end_process
from app.engine.commit.journal import Journal
from app.engine.commit.transactional_journal import TransactionalJournal
from app.engine.connections import Connections
from app.engine.deliver.destination_cluster import DestinationCluster
from app.engine.deliver.dispatcher import Dispatcher
from app.engine.deliver.posts import Posts
from app.engine.deliver.transactional_dispatcher import TransactionalDispatcher
from app.engine.due.due_loop import DueLoop
from app.engine.due.input_lag import margins_of
from app.engine.due.input_liveness import InputLiveness
from app.engine.due.series_pace import SeriesPace
from app.engine.faust_host.group_intake import GroupIntake
from app.engine.ingest.admission import Admission
from app.engine.ingest.census import Census
from app.engine.ingest.destination_topics import DestinationTopics, Elsewhere, Neighbours
from app.engine.ingest.hoped_topics import HopedTopics
from app.engine.ingest.quotas import Quotas
from app.engine.ownership.arrival_search import ArrivalSearch
from app.engine.ownership.assignment import Ownership, Stages
from app.engine.ownership.changelog_guard import ChangelogGuard
from app.engine.ownership.input_logs import InputLogs
from app.engine.ownership.internal_logs import InternalLogs
from app.engine.ownership.partition_catch_up import PartitionCatchUp
from app.engine.ownership.recovery import StoreRecovery
from app.engine.partition.partition import Partition
from app.engine.partition.services import Services
from app.engine.reports.agreement import Agreement
from app.engine.reports.due_soon import DueSoon
from app.engine.reports.latest_reports import LatestReports, RowVersion
from app.engine.reports.measures import Measures
from app.engine.reports.progress import ProgressReporter
from app.engine.reports.queues import Queues
from app.engine.reports.reader import ProgressReader
from app.engine.reports.standstill import Standstill
from app.engine.reports.watermark import Watermark
from app.engine.throttle.controls import Controls
from app.engine.throttle.throttle import Throttle
from app.kafka import Cluster, Sender
from app.settings.quotas import senders
from app.settings.settings import Settings
from tables import DelayTable, Stores

if TYPE_CHECKING:
    from app.engine.traces.traces import Traces


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts that the rest of a worker uses, or that run as tasks of their own."""

    dispatcher: Dispatcher
    intake: GroupIntake
    due: DueLoop
    ownership: Ownership
    controls: Controls
    internal_logs: InternalLogs
    watermark: Watermark
    progress: ProgressReporter
    queues: Queues
    standstill: Standstill
    agreement: Agreement
    minutes: DueSoon
    measures: Measures


def assemble(
    settings: Settings, clock: Clock, table: DelayTable, reader: ProgressReader, connections: Connections, app: Any
) -> Parts:
    """Return the parts of a worker. The `connections` must be open; the parts do not run yet."""
    cluster, targets, limits, traces = connections.cluster, connections.targets, connections.limits, connections.traces
    dispatcher, journal = dispatcher_and_journal(settings, clock, targets, cluster, connections.sender, table, traces)
    partitions, now = dict[int, Partition](), asyncio.get_running_loop().time

    # due messages
    intake, controls = GroupIntake(app), Controls(settings.topics, settings.engine, cluster)
    liveness = InputLiveness(intake, margins_of(settings.topics), settings.topics.namespaces)
    posts = Posts(settings.topics, settings.destinations, clock, connections.own_id, traces=traces)
    throttle = Throttle(settings.kafka, settings.topics, settings.destinations, clock, controls.known)
    due = DueLoop(settings, clock, dispatcher, partitions, liveness, posts, throttle)
    controls.changed = due.obey

    # requests
    destinations = DestinationTopics(cluster, patience_s=0)  # HopedTopics waits for new topics instead
    shared = len(senders(settings.topics.namespaces, settings.topics.inputs)) > 1
    admission = Admission(
        settings.topics,
        destinations,
        Neighbours.at_home(cluster),
        {name: Elsewhere(target.cluster, connections.own_id) for name, target in targets.items() if name is not None},
        Census(settings.destinations.max_destinations, table.stores, reader.reports, now, shared=shared),
    )
    admission.hopes = HopedTopics(cluster)
    quotas = (
        Quotas(settings.topics, table.stores, table.progress, reader.reports, now) if settings.topics.quotas else None
    )
    if quotas is not None and quotas.rates is not None:
        due.rows.pace = SeriesPace(quotas.rates)

    # reports
    progress = ProgressReporter(settings, clock, connections.sender, due, reader.last, quotas)
    reports = LatestReports(settings.topics, cluster)
    watermark = Watermark(settings.topics, cluster, clock, reports, partitions, intake, limits.producers_time)

    # partitions
    services = Services(
        settings,
        clock,
        journal,
        destinations,
        limits,
        RowVersion(settings.engine, reports),
        admission,
        quotas,
        traces=traces,
    )
    logs = InputLogs(settings.topics, settings.engine, cluster, clock, journal, limits.producers_time)
    internal_logs = InternalLogs(settings.topics, settings.engine, cluster, cold=limits.cold)
    guard = ChangelogGuard(
        settings.topics, settings.engine, table, journal, internal_logs.changelog_id, internal_logs.committed
    )
    ownership = Ownership(
        partitions,
        table,
        cluster,
        Stages(
            StoreRecovery(settings.topics, settings.engine, clock, table, journal, guard, limits.tombstones_ms),
            logs,
            watermark,
            intake,
            PartitionCatchUp(settings.topics, settings.engine, cluster, logs, intake, partitions, progress.report),
            controls,
            ArrivalSearch(settings.topics, settings.engine, clock, targets),
        ),
        lambda number, lost_inputs: Partition(number, services, due, lost_inputs),
        due.notify,
        end_process,
    )

    # observability
    standstill = progress.standstill = Standstill(logs.topics, intake, partitions, now)
    agreement, minutes = Agreement(settings, clock.wall_ms()), DueSoon(clock, partitions)
    late = due.lateness.since_start
    return Parts(
        dispatcher=dispatcher,
        intake=intake,
        due=due,
        ownership=ownership,
        controls=controls,
        internal_logs=internal_logs,
        watermark=watermark,
        progress=progress,
        queues=Queues(settings.topics, cluster, clock.wall_ms),
        standstill=standstill,
        agreement=agreement,
        minutes=minutes,
        measures=Measures(settings, clock, journal.tally, late, partitions, intake, agreement, minutes),
    )


def dispatcher_and_journal(
    settings: Settings,
    clock: Clock,
    targets: dict[str | None, DestinationCluster],
    cluster: Cluster,
    sender: Sender,
    table: Stores,
    traces: "Traces | None" = None,
) -> tuple[Dispatcher, Journal]:
    """Return the dispatcher and the journal for the delivery guarantee in DELAY_GUARANTEE."""
    if not settings.engine.exactly_once:
        dispatcher = Dispatcher(settings.destinations, clock, targets, traces)
        return dispatcher, Journal(settings.topics, settings.engine, cluster, sender, table)
    dispatcher = TransactionalDispatcher(settings.destinations, clock, targets, traces)
    parts = (settings.destinations, settings.topics, settings.engine, cluster, sender, table)
    return dispatcher, TransactionalJournal(dispatcher.stuck, *parts)
