"""The cold tier of a real worker: messages that were cancelled and scheduled again follow the last command.

During the run, `park`, its compaction and `promote` are ended at each point of their writes, and run again.
COLD_IDS=20000 is the long form, with 20,000 ids, where the commands are processes that are killed with SIGKILL.
`make chaos NAME=cold` runs it.
"""

import itertools
import logging
import os
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.cold.state import ColdState
from pipeline.context import JobContext
from pipeline.jobs import park, promote
from pipeline.kafka import Kafka
from tests.harness.deliveries import Deliveries
from tests.harness.hooked_pipeline import points_of
from tests.harness.queue_run import percentile
from tests.integration.installation import Installation, late_ms, running
from tests.pipeline.cutter import Cutter, CutterHere, Killer
from tests.pipeline.orders import Form, Orders, Wanted, faults, wanted_of

log = logging.getLogger(__name__)

_IDS = os.environ.get("COLD_IDS")
_SHORT = Form(200, 1, 60, 45, beyond_s=(10, 20), parked_s=(2, 8), held_s=(8, 20), later_s=10)
_LONG = Form(int(_IDS or 0), 120, 240, 180, beyond_s=(10, 90), parked_s=(5, 60), held_s=(30, 100), later_s=240)
FORM = _LONG if _IDS else _SHORT
GUARANTEES = ("at_least_once", "exactly_once")
_JOBS = {"park": park, "compact": park, "promote": promote}
_TURN = ("park", "promote", "compact", "promote")
_DRAIN_S = 300


def _settings(guarantee: str) -> Callable[[str], dict[str, str]]:
    cold = {"DELAY_HORIZON": f"PT{FORM.horizon_s}S", "DELAY_DEDUPE_WINDOW": "PT10M"}
    return lambda _: {**cold, "DELAY_GUARANTEE": guarantee}


class Tier:
    """A worker's cold tier, ids that are ordered, and commands that are ended at each point of their writes."""

    def __init__(self, here: Installation, cutter: Cutter, cold: Path) -> None:
        self.here, self.cutter, self.to = here, cutter, here.topic()
        self.orders = Orders(here, self.to, FORM)
        self._cold = str(cold)
        self._points = {name: itertools.cycle(points_of(name)) for name in _JOBS}
        self._next = {name: next(points) for name, points in self._points.items()}

    def turn(self) -> None:
        """End each command at its next point, if it gets there, and run it again."""
        for name in _TURN:
            job, words = _JOBS[name], [self._cold, *self._words(name)]
            if self.cutter.cut(self._next[name], job, *words):
                self._next[name] = next(self._points[name])
            assert self.cutter.run(job, *words) == 0

    def finish(self) -> None:
        """Run the commands until all expected messages have arrived and none is parked; check the deliveries."""
        expected, until = wanted_of(self.here), time.monotonic() + FORM.horizon_s + _DRAIN_S
        last_s = max(each.due_ms for each in expected.values()) / 1_000
        while time.monotonic() < until and (time.time() < last_s or expected.keys() - self._came().ids or self._left()):
            for name in ("promote", "park"):
                assert self.cutter.run(_JOBS[name], self._cold, *self._words(name)) == 0
            time.sleep(1)
        came = self._came()
        found = faults(expected, came.copies)
        self._tell(expected, came)
        assert not found, f"{len(found)} of {FORM.ids} are wrong:\n" + "\n".join(found[:20])
        assert not self._left()

    def _words(self, name: str) -> list[str]:
        return {"park": [], "compact": ["--compact"], "promote": ["--lead", f"PT{FORM.lead_s}S"]}[name]

    def _came(self) -> Deliveries:
        return Deliveries.read(self.here.bootstrap, self.to)

    def _left(self) -> int:
        """Return how many messages are parked."""
        context = self.cutter.context
        count: int = ColdState.of(context.lake(self._cold, park.KIND)).live().count()
        return count

    def _tell(self, expected: dict[str, Wanted], came: Deliveries) -> None:
        late: dict[str, list[int]] = {"when due": [], "at once": []}
        for id_ in expected.keys() & came.ids:
            late["at once" if expected[id_].at_once else "when due"].append(late_ms(came.copies[id_][0]))
        for when, values in late.items():
            shares = [percentile(values, share) for share in (0.5, 0.99, 1)] if values else []
            log.info("%d were to come %s; late, ms, p50, p99, most: %s", len(values), when, shares)
        told = Counter(event["event"] for event in self.here.events())
        log.info("of %d ids; events: %s", FORM.ids, dict(told))
        log.info("%d cuts: %s", self.cutter.cuts.total(), dict(self.cutter.cuts))
        assert told["stale"] > FORM.ids // 4, "many cancels were overtaken"


@pytest.mark.parametrize("guarantees", [[each] for each in GUARANTEES] if _IDS else [GUARANTEES], ids="-".join)
def test_the_last_order_is_what_comes_whatever_the_cold_tier_was_ended_at(
    spark: SparkSession,
    bootstrap: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own_spark: dict[str, str],
    guarantees: list[str],
) -> None:
    with ExitStack() as stack:
        tiers = []
        for guarantee in guarantees:  # at once, for most of the time they wait
            made = running(bootstrap, tmp_path / guarantee, "cold", env=_settings(guarantee))
            here = stack.enter_context(made)
            context = JobContext(spark, Kafka(bootstrap), here.app_id)
            log_file = tmp_path / f"{guarantee}.log"
            cutter = Killer(context, own_spark, log_file) if _IDS else CutterHere(context, monkeypatch)
            tiers.append(Tier(here, cutter, tmp_path / guarantee / "tier"))
            stack.enter_context(tiers[-1].orders)
        while not all(tier.orders.over for tier in tiers):
            for tier in tiers:
                tier.turn()
        for tier in tiers:
            tier.finish()
        cuts = sum((tier.cutter.cuts for tier in tiers), Counter[str]())
        assert {point.split(".")[0] for point in cuts} == set(_JOBS)
