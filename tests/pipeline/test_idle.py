"""The check before Spark starts reports an idle command, and never one that has work."""

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
from tests.pipeline.test_park_promote import HOUR_MS, NOW_MS, Worker

ROOT = Path(__file__).parents[2]


@pytest.fixture
def look(bootstrap: str) -> Iterator[Look]:
    with asyncio.Runner() as runner:
        yield Look(bootstrap, runner)


class Tier:
    """The two commands on one directory."""

    def __init__(self, context: JobContext, look: Look, cold: Path | str) -> None:
        self.context, self.look, self.cold = context, look, str(cold)
        self.source = source_of(context.app_id, look.cluster_id(context.topic("cold")))

    def parks(self) -> None:
        """Park, and assert that the check has reported an idle command exactly if no record was parked."""
        idle = park.idle(self.look, self.source, self._options(park))
        parked = park.park(self.context, self.context.lake(self.cold, park.KIND))
        assert idle == (parked == 0)

    def promotes(self, *, idle: bool) -> None:
        """Promote, and assert that the check has returned `idle`."""
        assert promote.idle(self.look, self.source, self._options(promote)) == idle
        sent = promote.promote(self.context, self.cold, HOUR_MS)
        assert not idle or not sent, "nothing that is due is overlooked"

    def _options(self, job: object) -> Namespace:
        parser = ArgumentParser()
        job.add_options(parser)  # type: ignore[attr-defined]
        return parser.parse_args([self.cold], Namespace(app_id=self.context.app_id))


def test_a_look_never_overlooks_what_is_due(
    context: JobContext, produce: Produce, look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, tier = Worker(context, produce), Tier(context, look, tmp_path / "cold")
    with pytest.raises(OptionInvalid, match="no cold tier"):
        tier.promotes(idle=False)
    park.park(context, context.lake(tier.cold, park.KIND))
    tier.promotes(idle=True)
    tier.parks()
    worker.parks("far", NOW_MS + 10 * HOUR_MS)
    worker.parks("soon", NOW_MS + HOUR_MS // 2)
    tier.promotes(idle=False)  # from the topic
    tier.parks()
    tier.parks()
    tier.promotes(idle=True)
    worker.parks("later", NOW_MS + HOUR_MS // 2)  # into a slice that was sent
    tier.parks()
    tier.promotes(idle=False)
    worker.touches("later")
    tier.promotes(idle=True)
    tier.parks()
    monkeypatch.setattr("pipeline.cold.promotion.AGAIN_MS", 0)
    tier.promotes(idle=False)  # nobody has told that `soon` has come
    worker.touches("soon")
    tier.parks()
    tier.promotes(idle=True)
    worker.touches("far", "deliver-now", at=NOW_MS)
    tier.promotes(idle=False)
    tier.parks()
    tier.promotes(idle=False)
    worker.touches("far")
    tier.parks()
    park.compact(context.lake(tier.cold, park.KIND))
    tier.promotes(idle=True)
    worker.parks("last", NOW_MS + HOUR_MS // 2)
    tier.parks()
    park.compact(context.lake(tier.cold, park.KIND))  # which leaves no voids
    tier.promotes(idle=False)


def test_a_look_that_fails_stops_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command runs, and reports the error itself."""

    @contextmanager
    def looking(_: str) -> Iterator[object]:
        yield SimpleNamespace(cluster_id=lambda *_: "cluster")

    def failing(*_: object) -> bool:
        raise OSError("a file is gone")

    monkeypatch.setattr("pipeline.preflight.looking", looking)
    for name, job in JOBS.items():
        if hasattr(job, "idle"):
            monkeypatch.setattr(job, "idle", failing)
            assert idle(job, Namespace(app_id="delay", bootstrap="nowhere")) is False, name


def test_what_is_too_much_to_look_at_is_for_spark(
    context: JobContext, produce: Produce, look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.cold.promotion.AGAIN_MS", 0)  # else what was looked at once is not looked at again
    worker, tier = Worker(context, produce), Tier(context, look, tmp_path)
    worker.parks("a", NOW_MS)
    worker.touches("a")
    tier.parks()
    tier.promotes(idle=True)
    for bound in ("_MESSAGES", "_VOIDS"):
        with monkeypatch.context() as patch:
            patch.setattr(f"pipeline.cold.idle.{bound}", 0)
            tier.promotes(idle=False)
    worker.touches("a")
    monkeypatch.setattr("pipeline.cold.idle._RECORDS", 0)
    tier.promotes(idle=False)


def test_a_command_with_nothing_to_do_starts_no_java(
    context: JobContext, produce: Produce, tmp_path: Path, own_spark: dict[str, str]
) -> None:
    cold = str(tmp_path / "cold")
    Worker(context, produce).parks("far", NOW_MS + 10 * HOUR_MS)
    park.park(context, context.lake(cold, park.KIND))
    where = ["--bootstrap", context.kafka.bootstrap, "--app-id", context.app_id]
    # A Java that cannot start: with something to do each of them fails.
    environment = own_spark | {"PYTHONPATH": str(ROOT), "JAVA_HOME": "/nowhere", "PATH": os.defpath}
    for command in ("park", "promote"):
        metrics = tmp_path / f"{command}.prom"
        words = [sys.executable, "-m", "pipeline", command, cold, *where, "--json", "--exit-nothing", "99"]
        words += ["--metrics", str(metrics)]
        with Stopwatch() as watch:
            done = subprocess.run([*words, "--jars-dir", "/nowhere"], env=environment, capture_output=True, check=False)
        told = json.loads(done.stdout)
        assert (done.returncode, told["exit_code"], told["nothing"]) == (99, 99, True), done.stderr
        assert f'punctual_pipeline_last_success_timestamp_seconds{{command="{command}"}} ' in metrics.read_text("utf-8")
        assert ("promoted_until" in metrics.read_text("utf-8")) == (command == "promote")
        assert watch.seconds < 20, "two seconds, on a machine that does nothing else"


def test_a_look_says_what_is_wrong(context: JobContext, tmp_path: Path) -> None:
    park.park(context, context.lake(str(tmp_path), park.KIND))
    with pytest.raises(LakeMismatch, match="Use another directory"):
        opened(str(tmp_path), park.KIND, "other")
    with asyncio.Runner() as runner, pytest.raises(KafkaUnreachable, match=r"^Kafka at 127.0.0.1:1 does not answer: "):
        Look("127.0.0.1:1", runner).ends("x")


@pytest.mark.parametrize("scheme", ["", "file:", "file://", "FILE:"])
def test_a_scheme_with_one_slash_is_the_same_directory(
    scheme: str, context: JobContext, produce: Produce, look: Look, tmp_path: Path
) -> None:
    Worker(context, produce).parks("a", NOW_MS)
    Tier(context, look, tmp_path).parks()

    Tier(context, look, f"{scheme}{tmp_path}").promotes(idle=False)


@pytest.mark.parametrize("root", ["hdfs:/cold", "dbfs:/cold", "s3a://bucket/cold", "abfss:/cold"])
def test_other_file_systems_are_not_looked_at_without_spark(root: str) -> None:
    assert opened(root, park.KIND, "delay") is None
