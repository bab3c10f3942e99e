"""Errors of the table.

TableError
├── StoreLocked         another process has this data directory open
├── StoreCorrupt        the local database is damaged
├── StoreUnusable       the disk of the local database fails
├── UnknownRowVersion   a row was written by a newer version of Punctual
├── UnknownRecordKind   a changelog record was written by a newer version of Punctual
├── RecordsGarbled      some of the changelog's records cannot be read
└── RecordUnreadable    a changelog record cannot be read, and this error names it
"""


class TableError(Exception):
    """The delay table has failed; the message says how, and what to do."""


class StoreLocked(TableError):
    """Another process has this data directory open."""

    def __init__(self, path: str) -> None:
        """Name the locked `path`."""
        super().__init__(
            f"the database {path} is in use by another process. "
            "Give each worker a data directory of its own (DATADIR or PORT), or stop the other worker."
        )


class StoreCorrupt(TableError):
    """The local database is damaged."""

    def __init__(self, path: str, cause: object) -> None:
        """Name the damaged `path` and the `cause` that was found."""
        super().__init__(
            f"the database {path} is damaged ({cause}). It is only a copy of the changelog. When a worker next opens "
            "it, the worker deletes it and restores it from the changelog."
        )


class StoreUnusable(TableError):
    """The disk of the local database fails."""

    def __init__(self, path: str, cause: object) -> None:
        """Name the `path` and the `cause` that the disk gives."""
        super().__init__(
            f"the database {path} cannot be used ({cause}). Check that its disk works, has free space and is "
            "writable. Then start the worker again. No data is lost, because the changelog has it."
        )


class UnknownRowVersion(TableError):
    """A row was written by a newer version of Punctual."""

    def __init__(self, version: int, known: int) -> None:
        """Name the `version` found and the newest one `known` here."""
        super().__init__(
            f"a row has version {version}, but this worker supports at most {known}. Upgrade this worker: a newer "
            "worker has written to the changelog."
        )


class UnknownRecordKind(TableError):
    """A changelog record was written by a newer version of Punctual."""

    def __init__(self, key: bytes) -> None:
        """Show the `key`, whose first byte is the kind."""
        super().__init__(
            f"the changelog has a record of an unknown kind (its key is {key[:40]!r}). Upgrade this worker: a newer "
            "worker has written to the changelog."
        )


class RecordsGarbled(TableError):
    """Some of the changelog's records cannot be read; an inspection finds out which."""

    def __init__(self, partition: str, end: int, cause: object) -> None:
        """Name the changelog's partition, the offset `end` that all such records are before, and the `cause`."""
        super().__init__(f"the changelog of partition {partition} cannot be read before offset {end}: {cause}")


class RecordUnreadable(TableError):
    """A changelog record cannot be read, and no later record has replaced its key."""

    def __init__(self, name: str, offset: int, why: str, number: int) -> None:
        """Name the changelog's partition, the first unreadable record, the reason, and the `number` of such records."""
        more = f" (and {number - 1:,} more)" if number > 1 else ""
        super().__init__(
            f"the changelog record {name}-{offset}{more} cannot be read: {why[:300]}. If a newer version of Punctual "
            "wrote it, upgrade this worker. Otherwise, check who may write to this topic, set "
            f"DELAY_ACCEPT_LOSS={name}-{offset} and restart: the worker skips the record and writes its key again."
        )
