"""The cold tier beside a real worker: of what was cancelled and scheduled anew the last order is what comes."""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.context import Context
from pipeline.jobs import park, promote
from pipeline.kafka import Kafka
from punctual.contract.home import home_partition
from tests.harness.hooked_pipeline import CutOff, Points, install
from tests.harness.kafka import Record, now_ms, read
from tests.harness.worker import eventually
from tests.integration.installation import PARTITIONS, Installation, late_ms, running

_LEAD_MS = 45_000
_COLD = {"DELAY_HORIZON": "PT1M", "DELAY_DEDUPE_WINDOW": "PT10M"}
_IDS = [f"id-{number}" for number in range(200)]


def _settings(guarantee: str) -> Callable[[str], dict[str, str]]:
    return lambda _: {**_COLD, "DELAY_GUARANTEE": guarantee}


def _order_anew(here: Installation, to: str) -> int:
    """Cancel and schedule ids, a cancel on a longer way than what is asked for after it; return the first due time."""
    dues = []
    for begin in range(0, len(_IDS), 20):
        some = _IDS[begin : begin + 20]
        for id_ in some:
            here.requests.command("cancel", id_, partition=(home_partition(id_, (), PARTITIONS) + 1) % PARTITIONS)
        here.requests.flush()
        time.sleep(0.003)  # stamps are milliseconds
        due = now_ms() + 75_000
        dues.append(due)
        for id_ in some:
            home = home_partition(id_, (), PARTITIONS)
            here.requests.send({"delay-id": id_, "delay-at": str(due), "delay-to": to}, None, b"new", partition=home)
        here.requests.flush()
    return dues[0]


def _cut_off(monkeypatch: pytest.MonkeyPatch, point: str, job: Callable[[], None]) -> None:
    def crash() -> None:
        raise CutOff

    with monkeypatch.context() as patch:
        install(Points(point, 1, crash), patch.setattr)
        with pytest.raises(CutOff):
            job()


class Tier:
    """A worker with a cold tier beside it, and 200 ids that are parked, cancelled and scheduled anew."""

    def __init__(self, here: Installation, spark: SparkSession, cold: Path, patch: pytest.MonkeyPatch) -> None:
        self._here, self._cold, self._patch = here, str(cold), patch
        self._context = Context(spark, Kafka(here.bootstrap), here.app_id)
        self.to = here.topic()
        self.first_due = 0

    def _parks(self, *, merge: bool = False) -> None:
        lake = self._context.lake(self._cold, park.KIND)
        park.park(self._context, lake)
        if merge:
            park.compact(lake)

    def _promotes(self) -> None:
        promote.promote(self._context, self._cold, _LEAD_MS)

    def _told(self) -> Counter[str]:
        return Counter(event["event"] for event in self._here.events())

    def park(self) -> None:
        """Have everything parked, by commands that are cut off and come again."""
        here = self._here
        for id_ in _IDS:
            here.requests.schedule(id_, now_ms() + 3_600_000, self.to, b"old")
        here.requests.flush()
        here.await_event("parked", *_IDS, seconds=60)
        self.first_due = _order_anew(here, self.to)
        _cut_off(self._patch, "write.done", self._parks)
        _cut_off(self._patch, "commit.done", self._parks)
        self._parks(merge=True)

        eventually(lambda: self._told()["parked"] == 2 * len(_IDS), 60, "parking")
        answers = ("stale", "deferred", "cancelled")
        eventually(lambda: sum(self._told()[name] for name in answers) >= len(_IDS), 60, "cancelling")
        assert self._told()["stale"] > len(_IDS) // 4, "most cancels were overtaken"
        self._parks()

    def promote(self) -> list[Record]:
        """Have everything come back when it is time, again after one that is cut off; return what is delivered."""
        time.sleep(max(0, self.first_due - _LEAD_MS - now_ms() + 500) / 1_000)
        _cut_off(self._patch, "send.done", self._promotes)
        until = time.monotonic() + 180
        while sum(1 for _ in read(self._here.bootstrap, self.to)) < len(_IDS) and time.monotonic() < until:
            self._promotes()
            self._parks()
            time.sleep(0.5)
        return list(read(self._here.bootstrap, self.to))


def test_a_cancel_that_comes_after_what_was_asked_for_later_cancels_nothing(
    spark: SparkSession, bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        tiers = []
        for guarantee in ("at_least_once", "exactly_once"):  # one after the other, but for the time until they are due
            made = running(bootstrap, tmp_path / guarantee, "cold", env=_settings(guarantee))
            tiers.append(Tier(stack.enter_context(made), spark, tmp_path / guarantee / "tier", monkeypatch))
            tiers[-1].park()
        for tier in tiers:
            came = tier.promote()
            assert Counter(record.header("delay-id") for record in came) == dict.fromkeys(_IDS, 1)
            assert {record.value for record in came} == {b"new"}
            assert min(late_ms(record) for record in came) >= 0, "none is early"
