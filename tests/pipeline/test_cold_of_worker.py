"""The cold tier of a real worker: each message follows its last command, also if it was cancelled and scheduled again.

During the run, the test interrupts `park`, its compaction and `promote` at each point of their writes, and runs them
again.
COLD_IDS=20000 selects the long form, with 20,000 ids and jobs in their own processes, which are killed with SIGKILL.
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
from tests.pipeline.command_plan import CommandSender, ExpectedDelivery, PlanSettings, expected_deliveries_of, faults
from tests.pipeline.interrupter import InProcessInterrupter, Interrupter, ProcessKiller

log = logging.getLogger(__name__)

_IDS = os.environ.get("COLD_IDS")
_SHORT = PlanSettings(200, 1, 60, 45, beyond_s=(10, 20), parked_s=(2, 8), held_s=(8, 20), later_s=10)
_LONG = PlanSettings(int(_IDS or 0), 120, 240, 180, beyond_s=(10, 90), parked_s=(5, 60), held_s=(30, 100), later_s=240)
PLAN = _LONG if _IDS else _SHORT
GUARANTEES = ("at_least_once", "exactly_once")
_JOBS = {"park": park, "compact": park, "promote": promote}
_ROUND = ("park", "promote", "compact", "promote")
_DRAIN_S = 300


def _settings(guarantee: str) -> Callable[[str], dict[str, str]]:
    settings = {"DELAY_HORIZON": f"PT{PLAN.horizon_s}S", "DELAY_DEDUPE_WINDOW": "PT10M"}
    return lambda _: {**settings, "DELAY_GUARANTEE": guarantee}


class Tier:
    """The cold tier of a worker that receives commands, and its jobs, which are interrupted at each of their points."""

    def __init__(self, installation: Installation, interrupter: Interrupter, cold: Path) -> None:
        self.installation, self.interrupter, self.to = installation, interrupter, installation.topic()
        self.sender = CommandSender(installation, self.to, PLAN)
        self._cold = str(cold)
        self._points = {name: itertools.cycle(points_of(name)) for name in _JOBS}
        self._next = {name: next(points) for name, points in self._points.items()}

    def run_round(self) -> None:
        """Interrupt each job at its next point, if it reaches the point, and run it again."""
        for name in _ROUND:
            job, arguments = _JOBS[name], [self._cold, *self._options(name)]
            if self.interrupter.interrupt(self._next[name], job, *arguments):
                self._next[name] = next(self._points[name])
            assert self.interrupter.run(job, *arguments) == 0

    def finish(self) -> None:
        """Run the jobs until all expected messages have arrived and none is parked; check the deliveries."""
        expected, deadline = expected_deliveries_of(self.installation), time.monotonic() + PLAN.horizon_s + _DRAIN_S
        last_s = max(delivery.due_ms for delivery in expected.values()) / 1_000
        while time.monotonic() < deadline and (
            time.time() < last_s or expected.keys() - self._deliveries().ids or self._parked()
        ):
            for name in ("promote", "park"):
                assert self.interrupter.run(_JOBS[name], self._cold, *self._options(name)) == 0
            time.sleep(1)
        deliveries = self._deliveries()
        sentences = faults(expected, deliveries.copies)
        self._log(expected, deliveries)
        assert not sentences, f"{len(sentences)} of {PLAN.ids} have faults:\n" + "\n".join(sentences[:20])
        assert not self._parked()

    def _options(self, name: str) -> list[str]:
        return {"park": [], "compact": ["--compact"], "promote": ["--lead", f"PT{PLAN.lead_s}S"]}[name]

    def _deliveries(self) -> Deliveries:
        return Deliveries.read(self.installation.bootstrap, self.to)

    def _parked(self) -> int:
        """Return how many messages are parked."""
        context = self.interrupter.context
        count: int = ColdState.of(context.lake(self._cold, park.KIND)).live().count()
        return count

    def _log(self, expected: dict[str, ExpectedDelivery], deliveries: Deliveries) -> None:
        late: dict[str, list[int]] = {"when due": [], "at once": []}
        for id_ in expected.keys() & deliveries.ids:
            late["at once" if expected[id_].at_once else "when due"].append(late_ms(deliveries.copies[id_][0]))
        for group, values in late.items():
            percentiles = [percentile(values, share) for share in (0.5, 0.99, 1)] if values else []
            log.info("%d expected %s; lateness in ms, p50, p99, maximum: %s", len(values), group, percentiles)
        events = Counter(event["event"] for event in self.installation.events())
        log.info("%d ids; events: %s", PLAN.ids, dict(events))
        log.info("%d interruptions: %s", self.interrupter.interruptions.total(), dict(self.interrupter.interruptions))
        assert events["stale"] > PLAN.ids // 4, "the schedules of many ids overtook their cancels"


@pytest.mark.parametrize("guarantees", [[each] for each in GUARANTEES] if _IDS else [GUARANTEES], ids="-".join)
def test_each_message_follows_its_last_command_although_jobs_of_the_cold_tier_are_interrupted(
    spark: SparkSession,
    bootstrap: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own_spark: dict[str, str],
    guarantees: list[str],
) -> None:
    with ExitStack() as stack:
        tiers = []
        for guarantee in guarantees:  # They run at the same time, because a run mostly waits.
            worker = running(bootstrap, tmp_path / guarantee, "cold", env=_settings(guarantee))
            installation = stack.enter_context(worker)
            context = JobContext(spark, Kafka(bootstrap), installation.app_id)
            log_file = tmp_path / f"{guarantee}.log"
            interrupter = (
                ProcessKiller(context, own_spark, log_file) if _IDS else InProcessInterrupter(context, monkeypatch)
            )
            tiers.append(Tier(installation, interrupter, tmp_path / guarantee / "tier"))
            stack.enter_context(tiers[-1].sender)
        while not all(tier.sender.finished for tier in tiers):
            for tier in tiers:
                tier.run_round()
        for tier in tiers:
            tier.finish()
        interruptions = sum((tier.interrupter.interruptions for tier in tiers), Counter[str]())
        assert {point.split(".")[0] for point in interruptions} == set(_JOBS)
