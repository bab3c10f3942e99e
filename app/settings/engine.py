"""Settings of a worker's partitions: how it takes over and processes them (docs/reference/settings.md)."""

from dataclasses import dataclass

from app.settings.declared import setting
from app.settings.values import one_of, whole, words
from punctual.contract.times import parse_duration
from tables.entry import VERSION

_GUARANTEES = ("at_least_once", "exactly_once")
#: Prefix in DELAY_ACCEPT_LOSS for a topic that was deleted and created again.
RECREATED = "recreated:"


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSettings:
    """The guarantee and the limits of a worker's partitions, and the accepted losses.

    Durations are milliseconds.
    """

    guarantee: str = setting("DELAY_GUARANTEE", "at_least_once", one_of(*_GUARANTEES), shared=True)
    session_timeout_ms: int = setting("DELAY_SESSION_TIMEOUT", "PT6S", parse_duration)
    catch_up_ms: int = setting("DELAY_CATCH_UP", "PT2M", parse_duration)
    max_in_flight: int = setting("DELAY_MAX_IN_FLIGHT", "4000", whole(1, 1_000_000))
    row_version: int = setting("DELAY_ROW_VERSION", "0", whole(0, VERSION))
    accept_loss: tuple[str, ...] = setting("DELAY_ACCEPT_LOSS", "", words)

    @property
    def exactly_once(self) -> bool:
        """Whether deliveries are part of transactions."""
        return self.guarantee == "exactly_once"

    def accepts_recreated(self, topic: str) -> bool:
        """Return whether the loss of a topic that was deleted and created again is accepted."""
        return f"{RECREATED}{topic}" in self.accept_loss

    def skipped(self, log: str) -> frozenset[int]:
        """Return the offsets of the records in a changelog partition, `topic-partition`, that are skipped."""
        named = (record.rpartition("-") for record in self.accept_loss)
        return frozenset(int(offset) for name, _, offset in named if name == log)
