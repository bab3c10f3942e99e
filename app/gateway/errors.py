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

from app.errors import PunctualError


class GatewayPortUnusable(PunctualError):
    """The gateway cannot listen on its port."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        """Name the address and what the system says."""
        super().__init__(
            f"the gateway cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}. Give it a "
            "DELAY_GATEWAY_PORT that is free and a HOST that is this machine's, or stop what listens there."
        )


class TokensMissing(PunctualError):
    """Others than this machine reach the gateway, and nobody has to show a token."""

    def __init__(self, host: str) -> None:
        """Name the address that it would listen on."""
        super().__init__(
            f"HOST={host}: others than this machine would reach the gateway, and nobody has to show a token. Set "
            "DELAY_GATEWAY_TOKENS_FILE (docs/how-to/gateway-tokens.md), or keep HOST at 127.0.0.1."
        )


class SpoolTaken(PunctualError):
    """Another process uses the spool."""

    def __init__(self, path: object) -> None:
        """Name the directory."""
        super().__init__(
            f"the gateway's data directory {path} is in use by another process. Give each gateway a directory of its "
            "own (DELAY_GATEWAY_DATADIR or DELAY_GATEWAY_PORT), or stop the other one."
        )


class SpoolForeign(PunctualError):
    """The spool is another installation's."""

    def __init__(self, path: object, theirs: str, ours: str) -> None:
        """Name the directory, the installation that it belongs to and the one that is served here."""
        super().__init__(
            f"the gateway's data directory {path} belongs to {theirs}, this gateway serves {ours}. What is in it was "
            "acknowledged and waits for that installation: start a gateway for that one with it, and give this one a "
            "directory of its own (DELAY_GATEWAY_DATADIR)."
        )


class SpoolUnusable(PunctualError):
    """The spool cannot be written, or is damaged."""

    def __init__(self, path: object, error: object) -> None:
        """Name the directory and what is wrong with it."""
        super().__init__(
            f"the gateway's spool in {path} cannot be used: {error}. See that its disk is there, has room and can be "
            "written (DELAY_GATEWAY_DATADIR says where it is). If it is damaged, keep a copy: what it holds was "
            "acknowledged and is nowhere else. Then start the gateway with an empty directory."
        )


class DeadLetterRefused(Exception):
    """Kafka refuses even the dead letter of a record that was promised: it stays in the spool."""


class SpoolFull(Exception):
    """Nothing was promised: the sender has to come again after a while, with the same id."""

    def __init__(self, why: str, retry_after_s: int) -> None:
        """Say why nothing can be taken, and after how many seconds it may be worth trying again."""
        super().__init__(why)
        self.retry_after_s = retry_after_s
