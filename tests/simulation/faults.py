"""The faults of one run, by seed, with their times, and the weather."""

import random
from dataclasses import dataclass, field

from app.engine.due.due_loop import FIRE_BATCH
from tests.simulation.network import CALM, Weather

#: Kinds and how likely each is.
_KINDS = {
    "crash": 4,
    "crash at a point": 5,
    "crash after some steps": 4,
    "freeze": 3,
    "zombie": 5,
    "cut off": 3,
    "restart": 3,
    "rebalance": 3,
    "one more worker": 2,
    "refuse": 3,
    "hold": 3,
    "node down": 2,
    "leader": 2,
    "load": 3,
    "clock": 3,
    "lag": 2,
}
#: How many runs have a broker that never comes back.
_AWAY = 0.08
#: The share of fault-free runs with forwards that are read late.
_BEHIND = 0.7
_DISKS = {"same": 6, "wiped": 2, "short": 3, "old": 2}
_REFUSALS = (19, 7, 6)
_WEATHERS = (
    CALM,
    CALM,
    Weather(slow=0.05),
    Weather(lost=0.01, unanswered=0.01, slow=0.03, error=0.01),
    Weather(lost=0.03, unanswered=0.03, slow=0.1, error=0.05, slowest_s=1.0),
    Weather(error=0.15),
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong at a time. What its numbers mean depends on its kind."""

    at_s: float
    kind: str
    worker: int
    lasts_s: float
    number: int
    disk: str

    def __str__(self) -> str:
        """Return the fault as a line."""
        return f"{self.at_s:.2f} s: {self.kind}, worker {self.worker}, {self.lasts_s:.2f} s, {self.number}, {self.disk}"


@dataclass(slots=True)
class Plan:
    """The faults and the settings of a run."""

    workers: int
    weather: Weather
    haunting: float
    span_s: float
    slowest_marker_s: float
    shifts_ms: list[int]
    session_s: float
    #: How far the brokers' clocks are off, by which they stamp what users send.
    brokers_ms: tuple[int, int]
    #: How many commands a message may get, and how many of the orders had waited elsewhere.
    commands: int
    waited: float
    #: How often an id is pushed back again and again, and a request has jitter.
    pushed: float
    jittered: float
    #: Whether the run's workers stop in an orderly way before the last one reads everything again.
    orderly: bool
    #: How long every fetch of forwards takes; only in runs without other faults.
    behind_s: float = 0.0
    env: dict[str, str] = field(default_factory=dict)
    #: How many rows a partition fires in a cycle.
    batch: int = FIRE_BATCH
    faults: list[Fault] = field(default_factory=list)


def plan(rnd: random.Random) -> Plan:
    """Make up the faults and settings of a run."""
    span_s = rnd.choice((2.0, 3.0, 4.0))
    exact = rnd.random() < 0.5
    env = {
        "DELAY_PARTITIONS": str(rnd.randint(2, 3)),
        "DELAY_DESTINATIONS": "*",
        "DELAY_REPLICATION_FACTOR": "1",
        "DELAY_GUARANTEE": "exactly_once" if exact else "at_least_once",
        "DELAY_MAX_IN_FLIGHT": str((batch := rnd.choice((1, 2, 4, 500))) * rnd.choice((1, 2))),
        "DELAY_DEDUPE_WINDOW": rnd.choice(("0", "0", "0", "0", "PT1S", "PT1M")),
        "DELAY_ROW_VERSION": rnd.choice(("0",) * 18 + ("1", "2")),
    }
    made = Plan(
        workers=rnd.randint(1, 3),
        weather=rnd.choice(_WEATHERS),
        haunting=rnd.choice((0.0, 0.5, 1.0)),
        span_s=span_s,
        slowest_marker_s=rnd.choice((0.005, 0.05, 0.05, 0.3)),
        shifts_ms=[rnd.choice((0, 0, rnd.randint(-80, 80), rnd.randint(-900, 900))) for _ in range(4)],
        session_s=rnd.choice((0.5, 1.5, 3.0)),
        brokers_ms=(0, rnd.choice((0, 0, rnd.randint(-50, 50), rnd.randint(-900, 900)))),
        commands=rnd.choice((1, 2, 2, 4)),
        waited=rnd.choice((0.0, 0.0, 0.0, 0.2)),
        pushed=rnd.choice((0.0, 0.2, 0.6)),
        jittered=rnd.choice((0.0, 0.0, 0.2)),
        orderly=rnd.random() < 0.5,
        env=env,
        batch=batch,
    )
    kinds, weights = list(_KINDS), list(_KINDS.values())
    disks, chances = list(_DISKS), list(_DISKS.values())
    for _ in range(rnd.choice((0, 1, 1, 2, 2, 3, 4, 6))):
        made.faults.append(
            Fault(
                rnd.uniform(0.0, span_s),
                rnd.choices(kinds, weights)[0],
                rnd.randrange(3),
                rnd.choice((0.1, 0.5, 1.0, 2.0)) * rnd.uniform(0.5, 1.5),
                rnd.randint(1, 60),
                rnd.choices(disks, chances)[0],
            )
        )
    made.faults.sort(key=lambda fault: fault.at_s)
    return made


def behind(seed: int, made: Plan) -> float:
    """Return how long fetches of forwards take in a run: 1 to 2 s in some of the runs without faults, else 0."""
    rnd = random.Random(f"{seed}-behind")  # noqa: S311 - its own generator leaves the faults of a seed unchanged
    calm = not made.faults and made.weather == CALM
    return rnd.uniform(1.0, 2.0) if calm and rnd.random() < _BEHIND else 0.0


def away(seed: int, span_s: float) -> list[Fault]:
    """Return the fault of a broker that never comes back, which a few runs have; others lead its partitions."""
    rnd = random.Random(f"{seed}-away")  # noqa: S311 - its own generator leaves the other faults of a seed unchanged
    if rnd.random() >= _AWAY:
        return []
    return [Fault(rnd.uniform(0.0, span_s), "node away", 0, rnd.uniform(0.1, 1.0), 0, "same")]


def refusal(fault: Fault) -> int:
    """Return the error code with which a destination refuses."""
    return _REFUSALS[fault.number % len(_REFUSALS)]
