"""The delay table: keeps pending messages until they are due.

One RocksDB per partition, indexed by due time; a compacted changelog topic is its source of truth. `store` has a
partition's rows, `entry` is a pending message, `keys` sort rows by due time. The formats of requests and the delivery
of messages are not known here; `app` has them.
"""

from tables.bound import Bound
from tables.changes import Changes, ColdMark, Position
from tables.commands import Command, RecordStamp, RememberedCommands
from tables.entry import Entry, Series
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
from tables.shares import NamespaceRule, NamespaceShare
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
    "NamespaceRule",
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
]
