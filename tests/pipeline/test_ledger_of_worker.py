"""The ledger of a real worker: the account shows a lost message, and `rescue` brings it back once."""

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.context import JobContext
from pipeline.jobs import reconcile, rescue
from pipeline.kafka import Kafka
from punctual.contract.home import home_partition
from tests.harness.changelog import Changelog
from tests.harness.systems import airtel, etf1
from tests.harness.waiting import eventually
from tests.integration.installation import PARTITIONS, Installation, running
from tests.pipeline.test_rescue import options


def _lose(here: Installation, id_: str) -> None:
    """Make the worker lose a message: its row is deleted in the changelog, and its disk is gone."""
    here.worker.stop()
    changelog = Changelog(here, home_partition(id_, (), PARTITIONS))
    row, _ = changelog.row(id_)
    changelog.append(changelog.epoch, [(row, None)])
    here.worker.wipe()
    here.worker.start().wait_ready()


@pytest.mark.core
def test_what_a_worker_has_lost_is_delivered_once(
    spark: SparkSession, bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(bootstrap, tmp_path, "ledger", balanced=False) as here:
        context = JobContext(spark, Kafka(bootstrap), here.app_id)
        lake = str(tmp_path / "ledger")
        to, due = here.topic(), int(time.time() * 1000) + 8_000
        here.requests.schedule("on-time", due, to, b"on time")
        here.requests.schedule("lost", due, to, b"lost")
        here.requests.schedule("later", due + 3_600_000, to)
        here.requests.flush()
        here.await_event("accepted", "on-time", "lost", "later")
        _lose(here, "lost")
        here.await_event("delivered", "on-time")
        eventually(lambda: min(said["fired_to"] for said in here.progress().values()) > due + 1_000, what="progress")

        assert reconcile.run(context, options(lake, "--grace", "PT1S")) == reconcile.UNBALANCED
        arguments = (lake, "--grace", "PT1S", "--apply")
        assert rescue.run(context, options(*arguments)) == 0
        assert "1 lost, 1 of them sent again" in capsys.readouterr().out
        here.await_event("delivered", "lost")
        assert rescue.run(context, options(*arguments)) == 0
        assert reconcile.run(context, options(lake, "--as-is", "--destination", to)) == 0
        assert f"{to}: each delivery is there once, and nothing else." in capsys.readouterr().out
        assert [record.value for record in here.wait_for(to, 2)] == [b"on time", b"lost"]


def test_so_is_what_came_in_another_dialect(
    spark: SparkSession, bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def env(app_id: str) -> dict[str, str]:
        return {"DELAY_INPUTS": f"{app_id}-schedules=etf1,{app_id}-delayer=airtel"}

    with running(bootstrap, tmp_path, "dialects", env=env, balanced=False) as here:
        context, inputs = JobContext(spark, Kafka(bootstrap), here.app_id), env(here.app_id)["DELAY_INPUTS"]
        lake = (str(tmp_path / "ledger"), "--inputs", inputs, "--grace", "PT1S")
        to, due_ms = here.topic(), (int(time.time()) + 8) * 1_000
        for number, id_ in enumerate(("on-time", "lost", "cancelled")):
            asked = etf1(number, to, due_ms)
            here.requests.send(asked.headers, id_.encode(), id_.encode(), topic=f"{here.app_id}-schedules")
        asked = airtel(3, to, due_ms)
        here.requests.send(asked.headers, None, asked.value, topic=f"{here.app_id}-delayer", partition=1)
        here.requests.send([], None, b"no JSON", topic=f"{here.app_id}-delayer", partition=1)
        here.requests.send([], b"cancelled", None, topic=f"{here.app_id}-schedules")
        here.requests.flush()
        here.await_event("cancelled", "cancelled")
        here.await_event("accepted", "on-time", "lost", f"{here.app_id}-delayer-1-0")
        here.await_event("refused", f"{here.app_id}-delayer-1-1")
        _lose(here, "lost")
        here.await_event("delivered", "on-time", f"{here.app_id}-delayer-1-0")
        eventually(lambda: min(said["fired_to"] for said in here.progress().values()) > due_ms + 1_000, what="progress")

        assert reconcile.run(context, options(*lake)) == reconcile.UNBALANCED
        assert rescue.run(context, options(*lake, "--apply")) == 0
        assert "1 lost, 1 of them sent again" in capsys.readouterr().out
        here.await_event("delivered", "lost")
        assert reconcile.run(context, options(*lake)) == 0
        assert sorted(record.value or b"" for record in here.wait_for(to, 3)) == [b"lost", b"on-time", b"text 3"]
