"""What delivers and what commits, put together as DELAY_GUARANTEE wants it."""

from typing import TYPE_CHECKING

from app.base.clock import Clock
from app.engine.commit.journal import Journal
from app.engine.commit.transactional_journal import TransactionalJournal
from app.engine.deliver.dispatcher import Dispatcher
from app.engine.deliver.target import Target
from app.engine.deliver.transactional_dispatcher import TransactionalDispatcher
from app.kafka import Cluster, Sender
from app.settings.settings import Settings
from tables import Stores

if TYPE_CHECKING:
    from app.engine.traces.traces import Traces


def dispatcher_and_journal(
    settings: Settings,
    clock: Clock,
    targets: dict[str | None, Target],
    cluster: Cluster,
    sender: Sender,
    table: Stores,
    traces: "Traces | None" = None,
) -> tuple[Dispatcher, Journal]:
    """Return what delivers and what commits, as DELAY_GUARANTEE wants it."""
    if not settings.exactly_once:
        return Dispatcher(settings, clock, targets, traces), Journal(settings, cluster, sender, table)
    dispatcher = TransactionalDispatcher(settings, clock, targets, traces)
    return dispatcher, TransactionalJournal(dispatcher.stuck, settings, cluster, sender, table)
