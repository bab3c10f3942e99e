"""The structures of a worker's responses that have no structure in the code that makes them."""

import msgspec

from app.serve.actions.audit import Action
from app.serve.actions.job import JobStatus
from app.serve.dead_letters.dead_letter import DeadLetter
from app.serve.search.namespaces import NamespaceDetails
from app.serve.search.peers import Missing
from app.serve.search.pending import PendingMessage
from app.serve.web.history import Minute
from app.serve.web.overview import InstallationOverview
from app.serve.web.overview_rows import DestinationRow, PartitionRow


class Overview(InstallationOverview, frozen=True, kw_only=True):
    """The state of an installation, from the reports of its workers."""

    app_id: str
    worker: str
    version: str


class PartitionList(msgspec.Struct, kw_only=True):
    """The last known state of each partition."""

    at_ms: int
    partitions: list[PartitionRow]


class DestinationList(msgspec.Struct, kw_only=True):
    """Destinations with their pending messages; of one `partition`, if it is there."""

    at_ms: int
    destinations: list[DestinationRow]
    partition: int = 0


class PendingPage(msgspec.Struct, kw_only=True):
    """Pending messages by due time. `next` is the cursor of the next page, null at the end."""

    rows: list[PendingMessage]
    next: str | None
    looked_at: int
    looked_to_ms: int | None
    complete: bool
    missing: list[Missing]
    missed: str | None = None


class DeadLetterRows(msgspec.Struct, kw_only=True):
    """Dead letters, the newest first. `next` is the cursor of the next page, null at the end."""

    rows: list[DeadLetter]
    next: str | None
    looked_at: int
    looked_back_to_ms: int | None


class NamespaceList(msgspec.Struct, kw_only=True):
    """Namespaces, with their inputs, destinations and pending messages."""

    app_id: str
    worker: str
    version: str
    at_ms: int
    pending: int
    namespaces: list[NamespaceDetails]


class History(msgspec.Struct, kw_only=True):
    """The last hour, minute by minute."""

    at_ms: int
    minutes: list[Minute]


class JobList(msgspec.Struct, kw_only=True):
    """Jobs, the newest first."""

    jobs: list[JobStatus]


class ActionList(msgspec.Struct, kw_only=True):
    """The newest actions."""

    acts: list[Action]
