"""Errors that keep a gateway from starting, or from accepting a record.

PunctualError
├── SpoolTaken           another process uses the spool
├── SpoolForeign         the spool belongs to another installation
└── SpoolUnusable        the spool cannot be written, or is damaged

DeadLetterRefused        Kafka refuses even the dead letter of a spooled record
SpoolFull                the records were not accepted: the sender must repeat the request
"""

from app.base.errors import PunctualError


class SpoolTaken(PunctualError):
    """Another process uses the spool."""

    def __init__(self, path: object) -> None:
        super().__init__(
            f"the gateway's data directory {path} is in use by another process. Give each gateway a directory of its "
            "own (DATADIR or DELAY_GATEWAY_PORT), or stop the other one."
        )


class SpoolForeign(PunctualError):
    """The spool belongs to another installation."""

    def __init__(self, path: object, theirs: str, ours: str) -> None:
        super().__init__(
            f"the gateway's data directory {path} belongs to {theirs}, but this gateway serves {ours}. The "
            "directory contains acknowledged messages for that installation: start a gateway of that installation with "
            "it, and give this gateway its own directory (DATADIR)."
        )


class SpoolUnusable(PunctualError):
    """The spool cannot be written, or is damaged."""

    def __init__(self, path: object, error: object) -> None:
        super().__init__(
            f"the gateway's spool in {path} cannot be used: {error}. Check that its disk is mounted, has free space "
            "and is writable (DATADIR is its directory). If the spool is damaged, keep a copy, because "
            "its messages were acknowledged and exist nowhere else. Then start the gateway with an empty directory."
        )


class DeadLetterRefused(Exception):
    """Kafka refuses even the dead letter of a spooled record, which stays in the spool."""


class SpoolFull(Exception):
    """The records were not accepted: the sender must repeat the request later, with the same ID."""
