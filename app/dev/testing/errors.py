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
            f"Punctual reads no requests from {topic} partition {partition}. Check its DELAY_APP_ID, DELAY_INPUTS "
            "and DELAY_PARTITIONS. Set them with Options(settings={…}) in the fixture delayed_options."
        )


class Stuck(SimulationError):
    """The simulated installation does not come to rest."""

    def __init__(self, now_ms: int) -> None:
        """Say when."""
        super().__init__(
            f"at {now_ms} ms the simulated Punctual does not become idle. This is a bug: please report it."
        )


class Inside(SimulationError):
    """A test's `respond` has called what it is called by."""

    def __init__(self) -> None:
        """Say what to do instead."""
        super().__init__(
            "respond() is called while the simulation runs, so it cannot call the simulation. Record the request in "
            "respond(), and react to it after advance() has returned."
        )
