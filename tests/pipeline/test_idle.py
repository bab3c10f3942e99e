"""The check before Spark starts never reports a command as idle that has records to process."""

import asyncio
import json
import os
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.cold.idle import opened
from pipeline.context import JobContext
from pipeline.errors import KafkaUnreachable, LakeMismatch, OptionInvalid
from pipeline.jobs import JOBS, idle, park, promote
from pipeline.lake import source_of
from pipeline.preflight import Look
from tests.harness.pace import Stopwatch
from tests.pipeline.conftest import Produce
from tests.pipeline.test_park_promote import HOUR_MS, NOW_MS, FakeWorker

ROOT = Path(__file__).parents[2]


@pytest.fixture
def look(bootstrap: str) -> Iterator[Look]:
    with asyncio.Runner() as runner:
        yield Look(bootstrap, runner)


class CheckedCommands:
    """Runs `park` and `promote` on one directory, each after its check."""

    def __init__(self, context: JobContext, look: Look, cold: Path | str) -> None:
        self.context, self.look, self.cold = context, look, str(cold)
        self.source = source_of(context.app_id, look.cluster_id(context.topic("cold")))

    def check_and_park(self) -> None:
        """Run `park`; assert that the check has returned True exactly if `park` parks no record."""
        idle = park.idle(self.look, self.source, self._options(park))
        parked = park.park(self.context, self.context.lake(self.cold, park.KIND))
        assert idle == (parked == 0)

    def check_and_promote(self, *, idle: bool) -> None:
        """Run `promote`; assert that the check has returned `idle`, and that an idle `promote` sends no message."""
        assert promote.idle(self.look, self.source, self._options(promote)) == idle
        sent = promote.promote(self.context, self.cold, HOUR_MS)
        assert not idle or not sent, "an idle promote has no due message"

    def _options(self, job: object) -> Namespace:
        parser = ArgumentParser()
        job.add_options(parser)  # type: ignore[attr-defined]
        return parser.parse_args([self.cold], Namespace(app_id=self.context.app_id))


def test_the_check_never_overlooks_a_due_message(
    context: JobContext, produce: Produce, look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, commands = FakeWorker(context, produce), CheckedCommands(context, look, tmp_path / "cold")
    with pytest.raises(OptionInvalid, match="no cold tier"):
        commands.check_and_promote(idle=False)
    park.park(context, context.lake(commands.cold, park.KIND))
    commands.check_and_promote(idle=True)
    commands.check_and_park()
    worker.park("far", NOW_MS + 10 * HOUR_MS)
    worker.park("soon", NOW_MS + HOUR_MS // 2)
    commands.check_and_promote(idle=False)  # `promote` reads `soon` from the topic.
    commands.check_and_park()
    commands.check_and_park()
    commands.check_and_promote(idle=True)
    worker.park("later", NOW_MS + HOUR_MS // 2)  # Its due time is in a slice that promote has already sent.
    commands.check_and_park()
    commands.check_and_promote(idle=False)
    worker.touch("later")
    commands.check_and_promote(idle=True)
    commands.check_and_park()
    monkeypatch.setattr("pipeline.cold.promotion.AGAIN_MS", 0)
    commands.check_and_promote(idle=False)  # No worker has confirmed that it received `soon`.
    worker.touch("soon")
    commands.check_and_park()
    commands.check_and_promote(idle=True)
    worker.touch("far", "deliver-now", at=NOW_MS)
    commands.check_and_promote(idle=False)
    commands.check_and_park()
    commands.check_and_promote(idle=False)
    worker.touch("far")
    commands.check_and_park()
    park.compact(context.lake(commands.cold, park.KIND))
    commands.check_and_promote(idle=True)
    worker.park("last", NOW_MS + HOUR_MS // 2)
    commands.check_and_park()
    park.compact(context.lake(commands.cold, park.KIND))  # A compaction leaves no voids.
    commands.check_and_promote(idle=False)


def test_a_failing_check_stops_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command runs, and reports the error itself."""

    @contextmanager
    def looking(_: str) -> Iterator[object]:
        yield SimpleNamespace(cluster_id=lambda *_: "cluster")

    def failing_idle(*_: object) -> bool:
        raise OSError("a file is gone")

    monkeypatch.setattr("pipeline.preflight.looking", looking)
    for name, job in JOBS.items():
        if hasattr(job, "idle"):
            monkeypatch.setattr(job, "idle", failing_idle)
            assert idle(job, Namespace(app_id="delay", bootstrap="nowhere")) is False, name


def test_the_check_leaves_many_records_messages_or_voids_to_spark(
    context: JobContext, produce: Produce, look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.cold.promotion.AGAIN_MS", 0)  # The check reads promoted messages again at once.
    worker, commands = FakeWorker(context, produce), CheckedCommands(context, look, tmp_path)
    worker.park("a", NOW_MS)
    worker.touch("a")
    commands.check_and_park()
    commands.check_and_promote(idle=True)
    for bound in ("_MESSAGES", "_VOIDS"):
        with monkeypatch.context() as patch:
            patch.setattr(f"pipeline.cold.idle.{bound}", 0)
            commands.check_and_promote(idle=False)
    worker.touch("a")
    monkeypatch.setattr("pipeline.cold.idle._RECORDS", 0)
    commands.check_and_promote(idle=False)


def test_an_idle_command_starts_no_java(
    context: JobContext, produce: Produce, tmp_path: Path, own_spark: dict[str, str]
) -> None:
    cold = str(tmp_path / "cold")
    FakeWorker(context, produce).park("far", NOW_MS + 10 * HOUR_MS)
    park.park(context, context.lake(cold, park.KIND))
    installation = ["--bootstrap", context.kafka.bootstrap, "--app-id", context.app_id]
    # This Java cannot start, so that a command which needs it fails.
    environment = own_spark | {"PYTHONPATH": str(ROOT), "JAVA_HOME": "/nowhere", "PATH": os.defpath}
    for command in ("park", "promote"):
        metrics = tmp_path / f"{command}.prom"
        arguments = [sys.executable, "-m", "pipeline", command, cold, *installation, "--json", "--exit-nothing", "99"]
        arguments += ["--metrics", str(metrics)]
        with Stopwatch() as watch:
            process = subprocess.run(
                [*arguments, "--jars-dir", "/nowhere"], env=environment, capture_output=True, check=False
            )
        summary = json.loads(process.stdout)
        assert (process.returncode, summary["exit_code"], summary["nothing"]) == (99, 99, True), process.stderr
        assert f'punctual_pipeline_last_success_timestamp_seconds{{command="{command}"}} ' in metrics.read_text("utf-8")
        assert ("promoted_until" in metrics.read_text("utf-8")) == (command == "promote")
        assert watch.seconds < 20, "it takes two seconds on an idle machine"


def test_the_check_reports_a_wrong_directory_and_an_unreachable_broker(context: JobContext, tmp_path: Path) -> None:
    park.park(context, context.lake(str(tmp_path), park.KIND))
    with pytest.raises(LakeMismatch, match="Use another directory"):
        opened(str(tmp_path), park.KIND, "other")
    with asyncio.Runner() as runner, pytest.raises(KafkaUnreachable, match=r"^Kafka at 127.0.0.1:1 does not answer: "):
        Look("127.0.0.1:1", runner).ends("x")


@pytest.mark.parametrize("scheme", ["", "file:", "file://", "FILE:"])
def test_a_local_path_with_a_scheme_is_the_same_directory(
    scheme: str, context: JobContext, produce: Produce, look: Look, tmp_path: Path
) -> None:
    FakeWorker(context, produce).park("a", NOW_MS)
    CheckedCommands(context, look, tmp_path).check_and_park()

    CheckedCommands(context, look, f"{scheme}{tmp_path}").check_and_promote(idle=False)


@pytest.mark.parametrize("root", ["hdfs:/cold", "dbfs:/cold", "s3a://bucket/cold", "abfss:/cold"])
def test_the_check_leaves_other_file_systems_to_spark(root: str) -> None:
    assert opened(root, park.KIND, "delay") is None
