"""Consumers that try again: an id is asked for anew about when its message comes, and given up in the end or not.

Runs with them have nothing that keeps usual messages from the compiled path.
"""

import random
from collections.abc import Iterator, Mapping

from app.settings import Settings
from punctual.contract.home import home_partition
from tests.simulation.loop import EPOCH_MS
from tests.simulation.workload import Ask, Headers

#: One run in so many has them.
_ONE_IN = 4
#: How long after the due time of a message its consumer asks for the next: before its row is removed, or after that.
_AFTER_S = (0.0, 0.005, 0.02, 0.06)


def are_there(seed: int) -> bool:
    """Return whether a run has such consumers."""
    return seed % _ONE_IN == _ONE_IN - 1


def settings_of_retries(seed: int) -> dict[str, str]:
    """Return what is set in a run that has them."""
    return {"DELAY_DEDUPE_WINDOW": "0", "DELAY_ROW_VERSION": "0"} if are_there(seed) else {}


def with_retries(
    asks: list[Ask], seed: int, settings: Settings, span_s: float, destinations: Mapping[str, int]
) -> list[Ask]:
    """Return what is asked for in a run, with what such consumers ask for within the span."""
    if not are_there(seed):
        return asks
    for ask in asks:
        ask.headers = [header for header in ask.headers if header[0] != "delay-dedupe"]
    rnd = random.Random(f"retries {seed}")  # noqa: S311 - the same run for the same seed
    to = sorted(destinations)
    return asks + [
        ask for number in range(rnd.randint(2, 6)) for ask in _tries(rnd, settings, span_s, rnd.choice(to), number)
    ]


def _tries(rnd: random.Random, settings: Settings, span_s: float, to: str, number: int) -> Iterator[Ask]:
    id_, at_s = f"retry-{number}", rnd.uniform(0, span_s / 2)
    place = home_partition(id_, settings.inputs, settings.partitions)
    turns = rnd.randint(2, 4)
    for turn in range(turns):
        ahead_s = rnd.choice((0.05, 0.2, 0.5)) if turn < turns - 1 else 1.5
        due_ms = EPOCH_MS + round((at_s + ahead_s) * 1000)
        headers: Headers = [("delay-to", to.encode()), ("delay-at", b"%d" % due_ms), ("delay-id", id_.encode())]
        yield Ask(at_s, place, "schedule", id_, due_ms, headers, b"k", b"%d try %d" % (number, turn))
        at_s = (due_ms - EPOCH_MS) / 1000 + rnd.choice(_AFTER_S)
    if rnd.random() < 0.7:
        cancel: Headers = [("delay-op", b"cancel"), ("delay-id", id_.encode())]
        yield Ask((due_ms - EPOCH_MS) / 1000 - rnd.uniform(1.1, 1.4), place, "cancel", id_, None, cancel, None, None)
