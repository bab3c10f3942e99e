"""The sizes of a run: messages, rates and times."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Counts are messages, of `value_bytes` each."""

    name: str
    backlog: int
    """Messages that are due in the far future during the steady load of `lateness`."""
    rate: int = 1_000
    """Messages a second of a steady load."""
    seconds: int
    """Duration of the steady load of `lateness`."""
    due_from_ms: int = 1_000
    due_to_ms: int = 10_000
    """How far ahead of its request a message of `lateness` is due."""
    beside_backlog: int = 100_000
    beside_seconds: int = 15
    """Pending messages and duration of the steady load when several systems are compared in one run."""
    burst: int
    """Messages that `ingest` reads and `drain` delivers."""
    lead_s: float = 20.0
    """From the first request of the burst to its first due time: ingest must be over by then."""
    mixed_burst: int
    """Messages that are ingested at full speed while a steady load is due."""
    mixed_seconds: int = 10
    kill_burst: int = 150_000
    """Messages that are due at once when `kill` kills a worker."""
    kills: int = 3
    overload: int = 200_000
    """Messages that are ingested alone, and as many again during deliveries."""
    rows: int
    """Pending messages in `restore` and `footprint`."""
    value_bytes: int = 200
    soak_rate: int = 1_000
    soak_s: int = 60
    rates: tuple[int, ...] = (100, 1_000, 10_000)
    backlogs: tuple[int, ...] = (0, 100_000)
    """Rates and pending messages of which `matrix` measures each pair."""
    recoveries: tuple[int, ...] = (50_000,)
    """Pending messages in `recovery`."""
    values: tuple[int, ...] = (100, 1_000, 10_000, 100_000)
    looked_at: int = 100_000
    """Pending messages in `look`."""
    looking_rates: tuple[int, ...] = tuple(range(5_000, 40_001, 2_500))
    """The rates that `look` tries, until one is too high."""
    looking_try_s: float = 6
    """Seconds for each rate."""
    looking_hold_s: float = 15
    """Seconds for which four fifths of the highest rate must not build up a backlog."""
    looking_s: int = 8
    """Seconds of each turn of `look`; a round has four turns."""
    looking_rounds: int = 3
    pipeline_rows: int = 1_000_000
    """Messages that each job of `pipeline` processes."""


SHORT = Sizes(name="short", backlog=100_000, seconds=15, burst=200_000, mixed_burst=100_000, rows=200_000)
FULL = Sizes(
    name="full",
    backlog=1_000_000,
    seconds=60,
    beside_backlog=200_000,
    beside_seconds=30,
    burst=200_000,
    mixed_burst=500_000,
    mixed_seconds=20,
    rows=1_000_000,
    backlogs=(0, 1_000_000, 10_000_000),
    recoveries=(100_000, 10_000_000),
    soak_rate=5_000,
    soak_s=900,
    looked_at=10_000_000,
    looking_rates=tuple(range(4_000, 64_001, 4_000)),
    looking_try_s=12,
    looking_hold_s=60,
    looking_s=10,
    looking_rounds=32,
    kills=5,
    pipeline_rows=2_000_000,
)
#: Just long enough to measure the cost of the hot path.
GUARD = replace(SHORT, name="guard", burst=60_000, lead_s=10.0)
#: Shows that the tool works; the figures are meaningless.
SMOKE = Sizes(
    name="smoke",
    backlog=1_000,
    rate=200,
    seconds=2,
    beside_backlog=1_000,
    beside_seconds=2,
    due_to_ms=2_000,
    burst=1_000,
    lead_s=6.0,
    mixed_burst=1_000,
    mixed_seconds=3,
    kill_burst=2_000,
    kills=1,
    overload=2_000,
    rows=1_000,
    rates=(100, 200),
    backlogs=(1_000,),
    recoveries=(500,),
    soak_rate=100,
    soak_s=5,
    values=(100,),
    looked_at=1_000,
    looking_rates=(100,),
    looking_hold_s=3,
    looking_s=3,
    looking_rounds=1,
    pipeline_rows=2_000,
)
