"""What can go wrong with the table.

TableError
├── StoreLocked         another process has this data directory open
├── StoreCorrupt        the local database is damaged
├── StoreUnusable       the disk does not do what the local database asks of it
├── UnknownRowVersion   a row was written by a newer version of Punctual
└── UnknownRecordKind   a changelog record was written by a newer version of Punctual
"""


class TableError(Exception):
    """Something is wrong with the delay table; the message says what and what to do."""


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
            f"the database {path} cannot be relied on ({cause}). It is only a copy of the changelog: when a worker "
            "opens it next, it is dropped and restored from there."
        )


class StoreUnusable(TableError):
    """The disk does not do what the local database asks of it."""

    def __init__(self, path: str, cause: object) -> None:
        """Name the `path` and the `cause` that the disk gives."""
        super().__init__(
            f"the database {path} cannot be used ({cause}). See that its disk has room, can be written and works, "
            "and start the worker again; nothing is lost, for the changelog has it."
        )


class UnknownRowVersion(TableError):
    """A row was written by a newer version of Punctual."""

    def __init__(self, version: int, known: int) -> None:
        """Name the `version` found and the newest one `known` here."""
        super().__init__(
            f"a row has version {version}, this worker knows versions up to {known}. "
            "Upgrade this worker: a newer one has written to the changelog."
        )


class UnknownRecordKind(TableError):
    """A changelog record was written by a newer version of Punctual."""

    def __init__(self, key: bytes) -> None:
        """Show the `key`, whose first byte is the kind."""
        super().__init__(
            f"the changelog has a record of a kind that this worker does not know (its key is {key[:40]!r}). "
            "Upgrade this worker: a newer one has written to the changelog."
        )
