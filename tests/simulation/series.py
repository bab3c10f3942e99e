"""Recurring messages of one run, by seed, with commands for them; in most runs there are none."""

import random
from dataclasses import replace

from app.settings.settings import Settings
from punctual.contract.home import home_partition
from tests.simulation.faults import Plan
from tests.simulation.loop import EPOCH_MS
from tests.simulation.workload import Ask, Headers

#: The share of runs with series.
_SHARE = 0.3
#: The share of series that are overdue when they are scheduled, and get their commands immediately.
_OVERDUE = 0.4
_MISFIRES = (None, "catch-up", "catch-up", "catch-up-last", "catch-up PT2S", "skip PT1S")
#: The share of overdue series that are scheduled again, instead of commands.
_AGAIN = 0.3
#: The share of series with a first time that have an end time.
_ENDED = 0.3
_OPS = ("cancel", "reschedule", "deliver-now", "pause")
#: The share of runs with one more series, which is paused, or only resumed, while its occurrence is not due as planned.
_HELD = 0.2
#: The share of runs with one more series, which is requested again when an occurrence is due.
_RESENT = 0.1
#: The only known run in which a planted bug shows ("a command does not wait until it is known whether its message has
#: arrived"): one more series would hide it.
_RARE = 569


def series(seed: int, settings: Settings, span_s: float, destinations: dict[str, int]) -> list[Ask]:
    """Make up the series of a run; the rest of the workload stays as it is."""
    rnd = random.Random(f"series {seed}")  # noqa: S311 - the same run for the same seed
    found: list[Ask] = []
    if rnd.random() >= _SHARE:
        return found
    for number in range(rnd.randint(1, 3)):
        id_, at_s = f"series-{number}", rnd.uniform(0, span_s)
        overdue = rnd.random() < _OVERDUE
        found.append(_request(rnd, settings, id_, at_s, sorted(destinations), overdue=overdue))
        if overdue and rnd.random() < _AGAIN:
            found.append(replace(found[-1], at_s=at_s + rnd.uniform(0.0, 0.6), headers=list(found[-1].headers)))
            continue
        for _ in range(rnd.choice((1, 1, 2) if overdue else (0, 0, 0, 1, 1, 2))):
            found += _command(rnd, settings, id_, at_s, overdue=overdue)
    _end(found, seed)
    return found


def _end(asks: list[Ask], seed: int) -> None:
    """Give some series an end time, before their count is over; all requests of an id have the same."""
    for ask in asks:
        first_ms, rnd = ask.said("delay-at"), random.Random(f"end {seed} {ask.id}")  # noqa: S311 - other runs stay
        if ask.recurs and first_ms is not None and rnd.random() < _ENDED:
            until_ms = int(first_ms) + rnd.randint(0, 4_000)
            ask.headers.append(("delay-until", b"%d" % until_ms))


def held(seed: int, settings: Settings, span_s: float, destinations: dict[str, int]) -> list[Ask]:
    """Make up a series whose occurrence is moved, or one more, or due later by its jitter, when it is held."""
    rnd = random.Random(f"held {seed}")  # noqa: S311 - the same run for the same seed
    if rnd.random() >= _HELD:
        return []
    id_, at_s, jitter_ms = "held-0", rnd.uniform(0, span_s), rnd.choice((0, 900))
    said = {
        "delay-to": rnd.choice(sorted(destinations)),
        "delay-id": id_,
        "delay-every": str(rnd.choice((1_000, 1_500))),
        "delay-count": str(rnd.randint(2, 6)),
        "delay-misfire": "catch-up",
        **({"delay-jitter": str(jitter_ms)} if jitter_ms else {}),
    }
    headers: Headers = [("users", b"own"), *((name, text.encode()) for name, text in said.items())]
    asks = [Ask(at_s, _place(rnd, settings, id_), "schedule", id_, None, headers, b"k", b"again")]
    op, at_s = rnd.choice((None, "reschedule", "reschedule", "deliver-now")), at_s + rnd.uniform(0.05, 1.0)
    if op is not None:
        moved_ms = EPOCH_MS + round((at_s + rnd.uniform(-0.2, 4.0)) * 1_000)
        asks.append(
            _order(rnd, settings, id_, op, at_s, [("delay-at", b"%d" % moved_ms)] if op == "reschedule" else [])
        )
    for each in rnd.choice((("resume",), ("pause", "resume"), ("pause", "resume"))):
        at_s += rnd.uniform(0.1, 1.5)
        asks.append(_order(rnd, settings, id_, each, at_s, []))
    return asks


def resent(seed: int, settings: Settings, plan: Plan, destinations: dict[str, int]) -> list[Ask]:
    """Make up a series that is requested again when an occurrence is due, in most runs during a fault."""
    rnd = random.Random(f"resent {seed}")  # noqa: S311 - the same run for the same seed
    if rnd.random() >= _RESENT or seed == _RARE:
        return []
    spans = [(fault.at_s, fault.lasts_s) for fault in plan.faults] or [(rnd.uniform(0, plan.span_s), 0.3)]
    (since_s, lasts_s), every_ms = rnd.choice(spans), rnd.choice((1_000, 1_500))
    due_s, again_s = since_s + rnd.uniform(0, lasts_s), since_s + rnd.uniform(-0.1, lasts_s)
    said = {
        "delay-to": rnd.choice(sorted(destinations)),
        "delay-id": "resent-0",
        "delay-at": str(EPOCH_MS + round(due_s * 1_000) - rnd.randint(0, 1) * every_ms),
        "delay-every": str(every_ms),
        "delay-count": str(rnd.randint(2, 5)),
        "delay-misfire": "catch-up",
    }
    headers: Headers = [("users", b"own"), *((name, text.encode()) for name, text in said.items())]
    asks_s = max(0.0, since_s - rnd.uniform(0.1, 0.8)), max(0.0, again_s)
    places = (_place(rnd, settings, "resent-0") for _ in asks_s)
    return [
        Ask(at_s, place, "schedule", "resent-0", None, list(headers), b"k", b"again")
        for at_s, place in zip(asks_s, places, strict=True)
    ]


def _request(
    rnd: random.Random, settings: Settings, id_: str, at_s: float, destinations: list[str], *, overdue: bool
) -> Ask:
    misfire = rnd.choice(_MISFIRES)
    first_ms = rnd.randint(-6_000, -1_500) if overdue else rnd.randint(-1_500, 800)
    said = {
        "delay-to": rnd.choice(destinations),
        "delay-id": id_,
        "delay-every": str(rnd.choice((1_000, 1_500))),
        "delay-count": str(rnd.randint(3, 7) if overdue else rnd.randint(1, 4)),
        **({} if misfire is None else {"delay-misfire": misfire}),
        **({"delay-jitter": "300"} if rnd.random() < 0.2 else {}),
        **({"delay-at": str(EPOCH_MS + round(at_s * 1_000) + first_ms)} if overdue or rnd.random() < 0.5 else {}),
    }
    headers: Headers = [("users", b"own"), *((name, text.encode()) for name, text in said.items())]
    return Ask(at_s, _place(rnd, settings, id_), "schedule", id_, None, headers, b"k", b"again")


def _command(rnd: random.Random, settings: Settings, id_: str, at_s: float, *, overdue: bool) -> list[Ask]:
    """Return a command, or a pause and what ends it: some wait before they come, so that much is due by then."""
    ops = ("reschedule", "deliver-now", "deliver-now", "pause", "pause") if overdue else _OPS
    op, at_s = rnd.choice(ops), at_s + (rnd.uniform(0.0, 0.05) if overdue else rnd.uniform(-0.2, 3.0))
    more: Headers = []
    if op == "reschedule":
        more.append(("delay-at", b"%d" % (EPOCH_MS + round((at_s + rnd.uniform(-0.5, 2.0)) * 1_000))))
    said = [(op, max(0.0, at_s), more)]
    if op == "pause":
        resumed_s = max(0.0, at_s) + rnd.uniform(0.1, 2.0)
        asked_ms = EPOCH_MS + round(rnd.uniform(max(0.0, at_s) + 0.1, resumed_s) * 1_000)
        said.append(("resume", resumed_s, [("delay-asked-at", b"%d" % asked_ms)] if rnd.random() < 0.3 else []))
    return [_order(rnd, settings, id_, each, when_s, others) for each, when_s, others in said]


def _order(rnd: random.Random, settings: Settings, id_: str, op: str, at_s: float, more: Headers) -> Ask:
    headers: Headers = [("delay-op", op.encode()), ("delay-id", id_.encode()), *more]
    return Ask(at_s, _place(rnd, settings, id_), op, id_, None, headers, None, None)


def _place(rnd: random.Random, settings: Settings, id_: str) -> int:
    if rnd.random() < 0.3:
        return rnd.randrange(settings.topics.partitions)
    return home_partition(id_, settings.topics.inputs, settings.topics.partitions)
