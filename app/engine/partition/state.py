"""Where a partition is between assignment and work."""

import enum


class State(enum.StrEnum):
    """Where a partition is on its way to work."""

    RESTORING = "restoring"
    CATCHING_UP = "catching up"
    LIVE = "live"
    PAUSED = "paused"
    STOPPED = "stopped"
