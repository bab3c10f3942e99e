"""The delay table: what holds messages until they are due.

One RocksDB a partition, indexed by due time, whose truth is a compacted changelog topic. Nothing here knows how a
request looks or how a message is delivered: that is `app`.
"""

from tables.bound import Bound
from tables.changes import Changes, ColdMark, Position
from tables.commands import Command, RecordStamp, RememberedCommands
from tables.entry import Entry
from tables.errors import (
    RecordsGarbled,
    RecordUnreadable,
    StoreCorrupt,
    StoreLocked,
    StoreUnusable,
    TableError,
    UnknownRecordKind,
    UnknownRowVersion,
)
from tables.inspection import Inspection
from tables.series import Series
from tables.shares import NamespaceShare, Whose
from tables.store import PartitionStore
from tables.stores import Stores
from tables.table import DelayTable

__all__ = [
    "Bound",
    "Changes",
    "ColdMark",
    "Command",
    "DelayTable",
    "Entry",
    "Inspection",
    "NamespaceShare",
    "PartitionStore",
    "Position",
    "RecordStamp",
    "RecordUnreadable",
    "RecordsGarbled",
    "RememberedCommands",
    "Series",
    "StoreCorrupt",
    "StoreLocked",
    "StoreUnusable",
    "Stores",
    "TableError",
    "UnknownRecordKind",
    "UnknownRowVersion",
    "Whose",
]
