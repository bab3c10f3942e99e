"""What keeps a gateway from starting, or a record from being taken.

PunctualError
├── GatewayPortUnusable  the gateway cannot listen on its port
├── TokensMissing        others reach the gateway, and nobody has to show a token
├── SpoolTaken           another process uses the spool
├── SpoolForeign         the spool is another installation's
└── SpoolUnusable        the spool cannot be written, or is damaged

DeadLetterRefused        Kafka refuses even the dead letter of a record that was promised
SpoolFull                nothing was promised: the sender has to come again
"""

import os

from app.base.errors import PunctualError


class GatewayPortUnusable(PunctualError):
    """The gateway cannot listen on its port."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        """Name the address and what the system says."""
        super().__init__(
            f"the gateway cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}. Set "
            "DELAY_GATEWAY_PORT to a free port and HOST to an address of this machine, or stop the process that "
            "listens there."
        )


class TokensMissing(PunctualError):
    """Others than this machine reach the gateway, and nobody has to show a token."""

    def __init__(self, host: str) -> None:
        """Name the address that it would listen on."""
        super().__init__(
            f"HOST={host}: other machines could reach the gateway without a token. Set "
            "DELAY_GATEWAY_TOKENS_FILE (docs/how-to/gateway-tokens.md), or keep HOST at 127.0.0.1."
        )


class SpoolTaken(PunctualError):
    """Another process uses the spool."""

    def __init__(self, path: object) -> None:
        """Name the directory."""
        super().__init__(
            f"the gateway's data directory {path} is in use by another process. Give each gateway a directory of its "
            "own (DATADIR or DELAY_GATEWAY_PORT), or stop the other one."
        )


class SpoolForeign(PunctualError):
    """The spool is another installation's."""

    def __init__(self, path: object, theirs: str, ours: str) -> None:
        """Name the directory, the installation that it belongs to and the one that is served here."""
        super().__init__(
            f"the gateway's data directory {path} belongs to {theirs}, but this gateway serves {ours}. The "
            "directory contains acknowledged messages for that installation: start a gateway of that installation with "
            "it, and give this gateway its own directory (DATADIR)."
        )


class SpoolUnusable(PunctualError):
    """The spool cannot be written, or is damaged."""

    def __init__(self, path: object, error: object) -> None:
        """Name the directory and what is wrong with it."""
        super().__init__(
            f"the gateway's spool in {path} cannot be used: {error}. Check that its disk is mounted, has free space "
            "and is writable (DATADIR is its directory). If the spool is damaged, keep a copy, because "
            "its messages were acknowledged and exist nowhere else. Then start the gateway with an empty directory."
        )


class DeadLetterRefused(Exception):
    """Kafka refuses even the dead letter of a record that was promised: it stays in the spool."""


class SpoolFull(Exception):
    """Nothing was promised: the sender has to come again after a while, with the same id."""

    def __init__(self, why: str, retry_after_s: int) -> None:
        """Say why nothing can be taken, and after how many seconds it may be worth trying again."""
        super().__init__(why)
        self.retry_after_s = retry_after_s
