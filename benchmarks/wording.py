"""Each system's headers: those of requests, and the due time in deliveries."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Headers = list[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class Wording:
    """The headers of a request whose key is its id."""

    headers: Callable[[str, int, bytes], Headers]
    """Makes them of the destination, the due time in epoch milliseconds and the id."""
    due: str
    """The header of a delivery that repeats the due time."""
    unit_ms: int = 1
    """The unit of due times in this wording, of which they are whole multiples."""


def _native(to: str, due_ms: int, id_: bytes) -> Headers:
    return [("delay-to", to.encode()), ("delay-at", b"%d" % due_ms), ("delay-id", id_)]


def _etf1(to: str, due_ms: int, id_: bytes) -> Headers:
    epoch = b"%d" % (due_ms // 1_000)
    return [("scheduler-epoch", epoch), ("scheduler-target-topic", to.encode()), ("scheduler-target-key", id_)]


WORDINGS: Mapping[str, Wording] = {
    "native": Wording(_native, "delay-due"),
    "etf1": Wording(_etf1, "scheduler-epoch", 1_000),
}
