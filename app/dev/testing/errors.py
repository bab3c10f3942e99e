"""What can go wrong with a simulated Punctual itself.

SimulationError
├── NoInput   what is written there is not read
├── Inside    it was called from within
└── Stuck     it does not come to rest
"""


class SimulationError(Exception):
    """The simulation cannot go on; the message says why and what to do."""


class NoInput(SimulationError):
    """What is written there is not read."""

    def __init__(self, topic: str, partition: int) -> None:
        """Name the place."""
        super().__init__(
            f"Punctual reads no requests from {topic} partition {partition}. Is its DELAY_APP_ID, DELAY_INPUTS or "
            "DELAY_PARTITIONS another one? Options(settings={…}) of the fixture delayed_options sets them."
        )


class Stuck(SimulationError):
    """The simulated installation does not come to rest."""

    def __init__(self, now_ms: int) -> None:
        """Say when."""
        super().__init__(
            f"at {now_ms} ms the simulated Punctual does not come to rest. That is a bug: please report it."
        )


class Inside(SimulationError):
    """A test's `respond` has called what it is called by."""

    def __init__(self) -> None:
        """Say what to do instead."""
        super().__init__(
            "respond() is called while Punctual is at work, and nothing can be asked of it then. Note there what came, "
            "and act when advance() has returned."
        )
