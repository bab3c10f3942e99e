"""Somebody looks at a worker that is busy: how long answers take, and what that costs deliveries.

One worker holds many messages and takes a steady load, four fifths of its capacity, if that does not build up over a
longer time either. In turns there is no reader, a reader that keeps the console's home page open, no reader, and a
reader that searches through all messages.
"""

import bisect
import itertools
import statistics
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import msgspec

from benchmarks import topics
from benchmarks.asker import Ask, Asker
from benchmarks.clock import now_ms, sleep_until
from benchmarks.errors import TooSlow
from benchmarks.figures import Figures, spread
from benchmarks.installation import Installation
from benchmarks.plan import Plan
from benchmarks.sizes import Sizes
from benchmarks.tally import Delivery

_SOON_MS, _LEAD_MS = 2_000, 1_000
#: A rate is too high when a hundredth of its messages are this late: they build up, if only for a while.
_BEHIND_MS = 300
#: How much of the highest rate the steady load is, and how many rates may turn out to be too high for long.
_SHARE, _TRIES = 0.8, 3
#: Pending messages are due within this time, from an hour ahead on.
_DAY_MS = 86_400_000
#: Maximum number of times a second that the home page is loaded, with its data.
_PER_S = 4
#: Answers within this time may belong to the turn before: one page of a search takes as long.
_SETTLE_MS = 2_000

_HOME, _TIMELINE, _MESSAGE, _FIND = "/", "/api/v1/timeline", "/api/v1/messages/far-7", "/api/v1/messages"
ANSWERS = ("home", "timeline", "message", "find")
ALONE, HOME, FIND = TURNS = ("alone", "home", "find")


def measure(bootstrap: str, sizes: Sizes) -> Figures:
    """Fill a fresh installation, find its capacity, and measure readers."""
    with Installation(bootstrap, "look") as here:
        step_us = max(1, _DAY_MS * 1_000 // sizes.looked_at)
        here.send(here.plan_far("far", sizes.looked_at, step_us=step_us, value_bytes=sizes.value_bytes))
        here.wait_settled()
        most = capacity(here, sizes)
        figures = beside(here, sizes, round(most * _SHARE))
        return {"look": {"capacity": most, "pending": here.far, **figures}}


def capacity(here: Installation, sizes: Sizes) -> float:
    """Return the highest rate tried at which messages go in and out, and whose share does not build up for long."""
    # this result does not count: compactions still run
    keeps(here, sizes.looking_rates[0], sizes.looking_hold_s)
    sustained_rates = list(
        itertools.takewhile(lambda rate: keeps(here, rate, sizes.looking_try_s), sizes.looking_rates)
    )
    for rate in sustained_rates[: -_TRIES - 1 : -1]:
        if keeps(here, round(rate * _SHARE), sizes.looking_hold_s):
            return rate
    rate = round(_SHARE * sustained_rates[-1]) if sustained_rates else sizes.looking_rates[0]
    raise TooSlow(f"look: the worker does not keep up with {rate:,} messages a second. Run on a quiet machine.")


def keeps(here: Installation, rate: int, seconds: float) -> bool:
    """Return whether messages do not build up at a rate for `seconds`."""
    plan, start = steady(here, f"try{rate}-{seconds:g}", rate, seconds), topics.ends(here.bootstrap, here.out)
    try:
        here.send(plan)
    except TooSlow:  # the generator shares these cores: a rate that it cannot send is too high
        return False
    here.wait_settled()
    return spread(topics.late_ms(here.bootstrap, here.out, start))["p99_ms"] <= _BEHIND_MS


def steady(here: Installation, name: str, rate: int, seconds: float) -> Plan:
    """Plan messages at a steady rate, each due a second after its request."""
    step_us = 1_000_000 // rate
    begin = now_ms() + _SOON_MS
    count = int(seconds * 1_000_000 / step_us)
    return here.plan(name, count, begin, step_us=step_us, lead_ms=_LEAD_MS, start_ms=begin, paced=True)


def beside(here: Installation, sizes: Sizes, rate: int) -> dict[str, float]:
    """Send a steady load through turns of each kind; return the figures."""
    slots = turns(sizes.looking_rounds)
    load = steady(here, "steady", rate, sizes.looking_s * (len(slots) + 1))
    begin = load.base_ms + _LEAD_MS
    edges = [begin + number * sizes.looking_s * 1_000 for number in range(len(slots) + 1)]
    took: dict[str, list[float]] = {}
    with here.sending(load) as sending:
        for number, kind in enumerate(slots):
            sleep_until(edges[number])
            asker = _asker(here, kind)
            with asker:
                sleep_until(edges[number + 1])
            for path, answers in (asker.took if isinstance(asker, Asker) else {}).items():
                took.setdefault(_named(path), []).extend(
                    ms for at_ms, ms in answers if at_ms >= edges[number] + _SETTLE_MS
                )
        sending.wait()
    here.wait_settled()
    late = by_turn(here.tally().deliveries(load), edges)
    return {"rate": rate, **_answers(took), **lateness(slots, late)}


def turns(rounds: int) -> list[str]:
    """Return the kinds of all turns: each turn with a reader is between two turns without."""
    return [*(kind for _ in range(rounds) for reader in (HOME, FIND) for kind in (ALONE, reader)), ALONE]


def _asker(here: Installation, kind: str) -> AbstractContextManager[object]:
    """Return the reader of a turn of this kind."""
    if kind == ALONE:
        return nullcontext()
    if kind == HOME:
        return Asker(here.worker.url, _home, 1 / _PER_S)
    return Asker(here.worker.url, _Search(), 0.0)


def _home(ask: Ask) -> None:
    """Load the home page and its data."""
    for path in (_HOME, "/api/v1/overview", _TIMELINE, _MESSAGE):
        ask(path)


class _Search:
    """Searches all pending messages for a missing key, page by page, and then again."""

    def __init__(self) -> None:
        self._next = ""

    def __call__(self, ask: Ask) -> None:
        """Fetch the next page."""
        page = msgspec.json.decode(ask(f"{_FIND}?key=none&cursor={self._next}"))
        self._next = page["next"] or ""


def _named(path: str) -> str:
    """Return the name of a path's answers among the figures, empty for other paths."""
    return {_HOME: "home", _TIMELINE: "timeline", _MESSAGE: "message", _FIND: "find"}.get(path, "")


def _answers(took: Mapping[str, list[float]]) -> dict[str, float]:
    spreads = {name: spread(values) for name, values in took.items()}
    return {f"{name}_{at}": spreads[name][at] for name in ANSWERS if name in spreads for at in ("p50_ms", "p99_ms")}


def by_turn(deliveries: Sequence[Delivery], edges: list[int]) -> list[list[int]]:
    """Return how late the messages of each turn were by their due times, without those of its first second."""
    late: list[list[int]] = [[] for _ in edges[1:]]
    for delivery in deliveries:
        turn = bisect.bisect_right(edges, delivery.due_ms) - 1
        if 0 <= turn < len(late) and delivery.due_ms >= edges[turn] + _SETTLE_MS:
            late[turn].append(delivery.late_ms)
    return late


def lateness(slots: Sequence[str], late: Sequence[Sequence[int]]) -> dict[str, float]:
    """Return the lateness of each kind of turn, all together, and by how much a look has raised it.

    The median, minimum and maximum are of single turns, each compared with the two turns alone before and after it: a
    stall of the broker (there are some a minute) raises one turn and the total a lot, the median little. The growth of
    the turns alone from the first to the last shows whether the load has held.
    """
    every = {
        kind: [ms for slot, turn in zip(slots, late, strict=True) if slot == kind for ms in turn] for kind in TURNS
    }
    figures = {f"late_{kind}_{at}": spread(every[kind])[at] for kind in TURNS for at in ("p50_ms", "p99_ms")}
    p99s = [spread(turn)["p99_ms"] for turn in late]
    for kind in (HOME, FIND):
        ratios = [
            p99s[place] / max(1.0, (p99s[place - 1] + p99s[place + 1]) / 2)
            for place, slot in enumerate(slots)
            if slot == kind
        ]
        figures |= {
            f"ratio_{kind}": figures[f"late_{kind}_p99_ms"] / max(1.0, figures["late_alone_p99_ms"]),
            f"ratio_{kind}_median": statistics.median(ratios),
            f"ratio_{kind}_least": min(ratios),
            f"ratio_{kind}_most": max(ratios),
        }
    return {**figures, "grown_ms": spread(late[-1])["p50_ms"] - spread(late[0])["p50_ms"]}
