"""Recurring messages in a zone, and the different zone data of workers, by seed; in most runs there are none.

One version of the data has the zone at UTC, the other one second before or after it.
"""

import random
from collections.abc import Iterator
from typing import Any

from app.engine.partition import replanning
from app.settings.settings import Settings
from punctual.contract import cron, zones
from punctual.contract.home import home_partition
from tests.simulation.loop import CURRENT, Process
from tests.simulation.workload import Ask, Headers

#: A zone whose clocks never change: the simulation has other rules for it.
ZONE = "Africa/Abidjan"
#: The share of runs with zones.
_SHARE = 0.12
STEP_S = 3
#: With wildcards in hours and minutes, and without: the first minute of the day in which all runs begin.
_EXPRESSIONS = (f"*/{STEP_S} * * * * *", f"*/{STEP_S} 0 0 * * *")
_FAR_S = 1 << 40


class Versions:
    """Which zone data each worker of a run has."""

    def __init__(self, seed: int, settings: Settings) -> None:
        """Have one version, or two in the runs that have recurring messages in a zone."""
        self.rnd = random.Random(f"zones {seed}")  # noqa: S311 - the same run for the same seed
        self.differ = self.rnd.random() < _SHARE and settings.engine.row_version not in (1, 2)
        self._by_life = (0, self.rnd.choice((-1, 1))) if self.differ else (0,)

    def of(self, life: int) -> int:
        """Return by how many seconds the zone's clocks are ahead of UTC by the data of a worker."""
        return self._by_life[life % len(self._by_life)]


def replacements() -> list[tuple[Any, str, Any]]:
    """Return the functions that give each worker its own zone data: module, name, and the function."""
    stretch_at, changes_between = zones.stretch_at, zones.changes_between

    def stretch(zone: str, moment: int) -> zones.Stretch:
        if zone != ZONE:
            return stretch_at(zone, moment)
        ahead_s = _process().zone_s
        return zones.Stretch(-_FAR_S, _FAR_S, ahead_s, ahead_s - _FAR_S)

    def changes(zone: str, begin: int, end: int) -> Iterator[zones.Stretch]:
        return iter(()) if zone == ZONE else changes_between(zone, begin, end)

    def data() -> bytes:
        return b"%d" % _process().zone_s

    return [(cron, "stretch_at", stretch), (cron, "changes_between", changes), (replanning, "zone_data", data)]


def _process() -> Process:
    return CURRENT.get()


def in_zones(versions: Versions, settings: Settings, span_s: float, destinations: dict[str, int]) -> list[Ask]:
    """Make up recurring messages in the zone, if workers have different data for it."""
    rnd, found = versions.rnd, list[Ask]()
    for number in range(rnd.randint(1, 3) if versions.differ else 0):
        id_ = f"zone-{number}"
        said = {
            "delay-to": rnd.choice(sorted(destinations)),
            "delay-id": id_,
            "delay-cron": rnd.choice(_EXPRESSIONS),
            "delay-zone": ZONE,
            "delay-count": str(rnd.randint(2, 4)),
            "delay-misfire": "catch-up",
        }
        headers: Headers = [("users", b"own"), *((name, text.encode()) for name, text in said.items())]
        place = home_partition(id_, settings.topics.inputs, settings.topics.partitions)
        found.append(Ask(rnd.uniform(0, span_s), place, "schedule", id_, None, headers, b"k", b"local"))
    return found
