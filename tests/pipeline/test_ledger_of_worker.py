"""The ledger of a real worker: `reconcile` reports a lost message, and `rescue` sends it again once."""

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


def _lose(installation: Installation, id_: str) -> None:
    """Make the worker lose a message: delete the row of the message in the changelog, and the disk of the worker."""
    installation.worker.stop()
    changelog = Changelog(installation, home_partition(id_, (), PARTITIONS))
    row, _ = changelog.row(id_)
    changelog.append(changelog.epoch, [(row, None)])
    installation.worker.wipe()
    installation.worker.start().wait_ready()


def _await_progress(installation: Installation, due_ms: int) -> None:
    """Wait until all partitions report that they have fired the messages of a due time and of the second after it."""
    eventually(
        lambda: min(report["fired_to"] for report in installation.progress().values()) > due_ms + 1_000, what="progress"
    )


@pytest.mark.core
def test_a_message_that_a_worker_has_lost_is_delivered_once_after_a_rescue(
    spark: SparkSession, bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(bootstrap, tmp_path, "ledger", balanced=False) as installation:
        context = JobContext(spark, Kafka(bootstrap), installation.app_id)
        ledger = str(tmp_path / "ledger")
        to, due_ms = installation.topic(), int(time.time() * 1000) + 8_000
        installation.requests.schedule("on-time", due_ms, to, b"on time")
        installation.requests.schedule("lost", due_ms, to, b"lost")
        installation.requests.schedule("later", due_ms + 3_600_000, to)
        installation.requests.flush()
        installation.await_event("accepted", "on-time", "lost", "later")
        _lose(installation, "lost")
        installation.await_event("delivered", "on-time")
        _await_progress(installation, due_ms)

        assert reconcile.run(context, options(ledger, "--grace", "PT1S")) == reconcile.UNBALANCED
        rescue_options = (ledger, "--grace", "PT1S", "--apply")
        assert rescue.run(context, options(*rescue_options)) == 0
        assert "1 lost, 1 of them sent again" in capsys.readouterr().out
        installation.await_event("delivered", "lost")
        assert rescue.run(context, options(*rescue_options)) == 0
        assert reconcile.run(context, options(ledger, "--as-is", "--destination", to)) == 0
        assert f"{to}: each delivery is there once, and nothing else." in capsys.readouterr().out
        assert [record.value for record in installation.wait_for(to, 2)] == [b"on time", b"lost"]


def test_a_lost_message_of_another_dialect_is_delivered_once_after_a_rescue(
    spark: SparkSession, bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def env(app_id: str) -> dict[str, str]:
        return {"DELAY_INPUTS": f"{app_id}-schedules=etf1,{app_id}-delayer=airtel"}

    with running(bootstrap, tmp_path, "dialects", env=env, balanced=False) as installation:
        app_id = installation.app_id
        context, inputs = JobContext(spark, Kafka(bootstrap), app_id), env(app_id)["DELAY_INPUTS"]
        ledger_options = (str(tmp_path / "ledger"), "--inputs", inputs, "--grace", "PT1S")
        to, due_ms = installation.topic(), (int(time.time()) + 8) * 1_000
        for number, id_ in enumerate(("on-time", "lost", "cancelled")):
            request = etf1(number, to, due_ms)
            installation.requests.send(request.headers, id_.encode(), id_.encode(), topic=f"{app_id}-schedules")
        request = airtel(3, to, due_ms)
        installation.requests.send(request.headers, None, request.value, topic=f"{app_id}-delayer", partition=1)
        installation.requests.send([], None, b"no JSON", topic=f"{app_id}-delayer", partition=1)
        installation.requests.send([], b"cancelled", None, topic=f"{app_id}-schedules")
        installation.requests.flush()
        installation.await_event("cancelled", "cancelled")
        installation.await_event("accepted", "on-time", "lost", f"{app_id}-delayer-1-0")
        installation.await_event("refused", f"{app_id}-delayer-1-1")
        _lose(installation, "lost")
        installation.await_event("delivered", "on-time", f"{app_id}-delayer-1-0")
        _await_progress(installation, due_ms)

        assert reconcile.run(context, options(*ledger_options)) == reconcile.UNBALANCED
        assert rescue.run(context, options(*ledger_options, "--apply")) == 0
        assert "1 lost, 1 of them sent again" in capsys.readouterr().out
        installation.await_event("delivered", "lost")
        assert reconcile.run(context, options(*ledger_options)) == 0
        values = sorted(record.value or b"" for record in installation.wait_for(to, 3))
        assert values == [b"lost", b"on-time", b"text 3"]
