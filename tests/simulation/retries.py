"""Consumers that try again: they schedule an id again at about the time its message comes, and some give up at the end.

Other consumers forward a record as they received it: several occurrences of one series, and records that were made from
one delivery, all with its headers. Each has a retry of its own, however many fail at the same time.

Runs with retries leave plain messages on the fast path.
"""

import random
from collections.abc import Iterator, Mapping

from app.settings.settings import Settings
from punctual.contract.home import home_partition
from punctual.contract.retry import copy_source, retry_id
from tests.simulation.loop import EPOCH_MS
from tests.simulation.workload import Ask, Headers

#: One run in this many has retries.
_ONE_IN = 4
#: Time from a due time to the consumer's next request: before the row is removed, or later.
_AFTER_S = (0.0, 0.005, 0.02, 0.06)

_WAIT_MS = 800
_BACKOFF = b"exponential %dms 1 %dms" % (_WAIT_MS, _WAIT_MS)


def are_there(seed: int) -> bool:
    """Return whether a run has retrying consumers."""
    return seed % _ONE_IN == _ONE_IN - 1


def settings_of_retries(seed: int) -> dict[str, str]:
    """Return the settings of a run with retries, empty for other runs."""
    return {"DELAY_DEDUPE_WINDOW": "0", "DELAY_ROW_VERSION": "0"} if are_there(seed) else {}


def with_retries(
    asks: list[Ask], seed: int, settings: Settings, span_s: float, destinations: Mapping[str, int]
) -> list[Ask]:
    """Return the requests of a run, with those of retrying consumers within the span."""
    if not are_there(seed):
        return asks
    for ask in asks:
        ask.headers = [header for header in ask.headers if header[0] != "delay-dedupe"]
    rnd = random.Random(f"retries {seed}")  # noqa: S311 - the same run for the same seed
    to = sorted(destinations)
    forwarded = [ask for _ in range(rnd.randint(1, 3)) for ask in _forwards(rnd, settings, span_s, rnd.choice(to))]
    return [*asks, *forwarded] + [
        ask for number in range(rnd.randint(2, 6)) for ask in _tries(rnd, settings, span_s, rnd.choice(to), number)
    ]


def _forwards(rnd: random.Random, settings: Settings, span_s: float, to: str) -> Iterator[Ask]:
    """Forward what failed in an outage, each record at least once."""
    partition, at_s = rnd.randrange(settings.topics.partitions), rnd.uniform(0, span_s / 2)
    derived, begun = rnd.random() < 0.5, rnd.randrange(1_000_000)
    for number in range(rnd.randint(2, 5)):
        due, value = b"%d" % (EPOCH_MS + (0 if derived else number)), b"%d failed" % number
        source = f"of-a-series-{partition}-{begun}"
        ours = [("delay-id", b"series@" + due), ("delay-due", due), ("delay-source", source.encode())]
        headers: Headers = [("users", b"own"), *ours, ("delay-to", to.encode()), ("delay-retry", _BACKOFF)]
        id_ = retry_id(copy_source(source, due, b"k", value), 2, to)
        yield Ask(at_s + 0.01 * number, partition, "schedule", id_, None, headers, b"k", value)


def stamped(ask: Ask) -> None:
    """Set when a forwarded record is due again, which counts from its own timestamp."""
    if ask.said("delay-retry") is not None:
        ask.due_ms = ask.stamp_ms + _WAIT_MS


def _tries(rnd: random.Random, settings: Settings, span_s: float, to: str, number: int) -> Iterator[Ask]:
    id_, at_s = f"retry-{number}", rnd.uniform(0, span_s / 2)
    place = home_partition(id_, settings.topics.inputs, settings.topics.partitions)
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
