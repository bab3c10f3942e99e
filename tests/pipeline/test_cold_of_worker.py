"""The cold tier beside a real worker: of what was cancelled and scheduled anew the last order is what comes."""

import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.context import Context
from pipeline.jobs import park, promote
from pipeline.kafka import Kafka
from punctual.contract.home import home_partition
from tests.harness.hooked_pipeline import Points, install
from tests.harness.kafka import now_ms, read
from tests.harness.worker import eventually
from tests.integration.installation import PARTITIONS, Installation, late_ms, running

_LEAD_MS = 45_000
_COLD = {"DELAY_HORIZON": "PT1M", "DELAY_DEDUPE_WINDOW": "PT10M"}
_IDS = [f"id-{number}" for number in range(200)]


class CutOff(BaseException):
    """What kills a command: nothing of it catches that."""


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


def _cut_off(monkeypatch: pytest.MonkeyPatch, point: str, job: object) -> None:
    def crash() -> None:
        raise CutOff

    with monkeypatch.context() as patch:
        install(Points(point, 1, crash), patch.setattr)
        with pytest.raises(CutOff):
            job()  # type: ignore[operator]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_cancel_that_comes_after_what_was_asked_for_later_cancels_nothing(
    spark: SparkSession, bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guarantee: str
) -> None:
    with running(bootstrap, tmp_path, "cold", env=lambda _: {**_COLD, "DELAY_GUARANTEE": guarantee}) as here:
        context, cold, to = Context(spark, Kafka(bootstrap), here.app_id), str(tmp_path / "tier"), here.topic()

        def parks(*, merge: bool = False) -> None:
            lake = context.lake(cold, park.KIND)
            park.park(context, lake)
            if merge:
                park.compact(lake)

        def promotes() -> None:
            promote.promote(context, cold, _LEAD_MS)

        for id_ in _IDS:
            here.requests.schedule(id_, now_ms() + 3_600_000, to, b"old")
        here.requests.flush()
        here.await_event("parked", *_IDS, seconds=60)
        first = _order_anew(here, to)
        _cut_off(monkeypatch, "write.done", parks)
        _cut_off(monkeypatch, "commit.done", parks)
        parks(merge=True)

        def told() -> Counter[str]:
            return Counter(event["event"] for event in here.events())

        eventually(lambda: told()["parked"] == 2 * len(_IDS), 60, "parking")
        eventually(lambda: told()["stale"] + told()["deferred"] + told()["cancelled"] >= len(_IDS), 60, "cancelling")
        assert told()["stale"] > len(_IDS) // 4, "most cancels were overtaken"
        parks()
        time.sleep(max(0, first - _LEAD_MS - now_ms() + 500) / 1_000)
        _cut_off(monkeypatch, "send.done", promotes)
        until = time.monotonic() + 180
        while sum(1 for _ in read(bootstrap, to)) < len(_IDS) and time.monotonic() < until:
            promotes()
            parks()
            time.sleep(0.5)
        came = list(read(bootstrap, to))
        assert Counter(record.header("delay-id") for record in came) == dict.fromkeys(_IDS, 1)
        assert {record.value for record in came} == {b"new"}
        assert min(late_ms(record) for record in came) >= 0, "none is early"
