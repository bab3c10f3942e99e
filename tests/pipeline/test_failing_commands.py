"""A failing command prints one line with the reason, returns an exit code, and leaves no partial result."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyarrow import parquet

from pipeline.__main__ import main
from pipeline.context import JobContext
from pipeline.errors import PipelineError
from pipeline.jobs.park import KIND, park
from pipeline.spark_errors import java_ended
from tests.harness.pace import Stopwatch
from tests.harness.ports import free_port
from tests.harness.waiting import LIMIT_S, PROGRAM_S
from tests.pipeline.conftest import Consume, Produce

ROOT = Path(__file__).parents[2]
_ROW_OPTIONS = ("--job", "job", "--at", "at", "--to", "out", "--value", "at", "--id", "at")

RunFailing = Callable[..., tuple[int, str]]


def installation_options(context: JobContext) -> tuple[str, ...]:
    return ("--bootstrap", context.kafka.bootstrap, "--app-id", context.app_id)


@pytest.fixture
def run_failing(context: JobContext, capfd: pytest.CaptureFixture[str]) -> RunFailing:
    """Return a function that runs a failing command line and returns its exit code and its line on stderr."""

    def run(*words: str) -> tuple[int, str]:
        capfd.readouterr()
        code = main([*words, *installation_options(context)])
        # Lines with the durations of the steps are not errors.
        lines = [line for line in capfd.readouterr().err.splitlines() if not line.endswith(" s")]
        assert len(lines) == 1, lines
        return code, lines[0]

    return run


def test_an_input_that_cannot_be_read_is_named_in_the_error(
    run_failing: RunFailing, context: JobContext, consume: Consume, tmp_path: Path
) -> None:
    text, damaged, empty = (tmp_path / name for name in ("a.csv", "cut.parquet", "empty"))
    text.write_text("at\n1\n" * 100, "utf-8")
    parquet.write_table(pa.table({"at": list(range(100_000))}), damaged)
    content = damaged.read_bytes()
    damaged.write_bytes(content[:1_000] + b"x" * 5_000 + content[6_000:])
    empty.mkdir()
    sentences = {
        f"{tmp_path}/nope": f"there is nothing at {tmp_path}/nope. Check that it has been written.",
        str(text): f"{text} is not Parquet. For another format, give --format.",
        str(damaged): f"{damaged} cannot be read to its end (IOException: ",
        str(empty): "there are no files of Parquet in INPUT. Check that it has been written.",
    }
    for name, sentence in sentences.items():
        code, line = run_failing("bulk", name, *_ROW_OPTIONS)
        assert (code, line[: len(sentence)]) == (1, sentence)
    assert run_failing("bulk", "nope", "--format", "table", *_ROW_OPTIONS) == (
        1,
        "Spark knows no table `nope`. Check that its catalog is configured.",
    )
    assert run_failing("bulk", str(text), "--format", "csv", "--reader-option", "encoding=x", *_ROW_OPTIONS)[0] == 1
    for scheme, package in (("s3a", "hadoop-aws"), ("gs", "gcs-connector"), ("abfss", "hadoop-azure")):
        code, line = run_failing("bulk", f"{scheme}://bucket/rows", *_ROW_OPTIONS)
        assert (code, package in line.partition("without ")[2]) == (2, True), line
    result = run_failing("bulk", "s3://bucket/rows", *_ROW_OPTIONS)
    assert result == (2, "Spark does not support s3://. Write s3a:// instead.")
    assert consume(context.topic("requests")) == []


def test_an_output_that_cannot_be_written_is_reported_before_the_work(run_failing: RunFailing, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for words in (["report", "--out"], ["report", "--png"], ["reconcile", "--out"]):
        command, option = words
        code, line = run_failing(command, str(tmp_path / "ledger"), option, "s3a://bucket/out")
        assert (code, line.split(" without ")[0]) == (2, "Spark does not support the file system s3a://")
        code, line = run_failing(command, str(tmp_path / "ledger"), option, f"{file}/out")
        assert (code, line.split(":")[0]) == (1, f"{file}/out cannot be written")
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"at": 1700000000000}\n', "utf-8")
    assert run_failing("bulk", str(rows), "--format", "jsonl", *_ROW_OPTIONS, "--rejects", f"{file}/out")[0] == 1
    assert [path.name for path in tmp_path.iterdir() if path.name != "rows.jsonl"] == ["file"]


def test_a_dry_run_also_reports_a_missing_destination(
    run_failing: RunFailing, context: JobContext, consume: Consume, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"at": 1700000000000, "to": "out"}\n{"at": 1700000000001, "to": "nowhere"}\n', "utf-8")
    arguments = ("bulk", str(rows), "--format", "jsonl", "--job", "job", "--at", "at", "--id", "at", "--value", "at")
    for dry_run_option in ([], ["--dry-run"]):
        code, line = run_failing(*arguments, "--to-column", "to", *dry_run_option)
        assert (code, line.split(". ")[:2]) == (
            1,
            [f"destinations are missing on {context.kafka.bootstrap}: nowhere", "Nothing was sent"],
        )
    assert consume(context.topic("requests")) == []


def test_a_directory_with_other_contents_is_refused(
    run_failing: RunFailing, context: JobContext, tmp_path: Path
) -> None:
    own, other_installation, foreign = (tmp_path / name for name in ("mine", "theirs", "foreign"))
    assert main(["ledger", str(own), *installation_options(context)]) == 0
    code, line = run_failing("park", str(own))
    assert (code, line.split(" of ")[0]) == (1, f"{own} holds a ledger")

    shutil.copytree(own, other_installation)
    for commit in (other_installation / "_delta_log").glob("*.json"):
        commit.write_text(commit.read_text("utf-8").replace(context.app_id, "another"), "utf-8")
        commit.with_name(f".{commit.name}.crc").unlink()  # A copy to another file system has no checksum files either.
    code, line = run_failing("ledger", str(other_installation))
    assert code == 1
    assert line.startswith(f"{other_installation} holds a ledger of another on cluster ")

    context.spark.range(1).write.format("delta").save(str(foreign))
    code, line = run_failing("ledger", str(foreign))
    assert (code, line) == (1, f"{foreign} is a Delta table of another program. Use another directory.")


def test_a_missing_broker_or_topic_is_reported_within_seconds(
    context: JobContext, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    closed_address = f"127.0.0.1:{free_port()}"
    with Stopwatch() as watch:
        assert main(["ledger", str(tmp_path), "--bootstrap", closed_address]) == 1
    output = capfd.readouterr().err
    assert output.startswith(f"Kafka at {closed_address} does not answer: ")
    assert output.count("\n") == 1
    assert watch.seconds < 5
    code = main(["park", str(tmp_path), *installation_options(context), "--app-id", "other"])
    output = capfd.readouterr().err
    assert code == 1
    assert output.startswith(f"there is no topic other-cold on {context.kafka.bootstrap}. ")
    assert output.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_master_on_a_cluster_has_to_be_given_to_spark_submit(
    context: JobContext, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    for options, sentence in (
        (
            ["--master", "spark://host:7077"],
            "--master spark://host:7077 is not on this machine. Give it to spark-submit",
        ),
        (["--conf", "spark.x"], "--conf spark.x is not of the form NAME=VALUE."),
    ):
        assert main(["bulk", "INPUT", *_ROW_OPTIONS, *installation_options(context), *options]) == 2
        assert capfd.readouterr().err.startswith(sentence)


def test_lost_records_and_a_concurrent_run_have_their_own_exit_codes(
    run_failing: RunFailing,
    context: JobContext,
    produce: Produce,
    admin: AdminClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cold, topic = str(tmp_path / "cold"), context.topic("cold")
    headers = {"delay-op": "cancel", "delay-id": "x", "delay-source": "r-0-0", "delay-parked": "1", "delay-epoch": "1"}

    def write_cancel() -> None:
        produce(topic, None, headers=list(headers.items()), partition=0)

    write_cancel()
    lake = context.lake(cold, KIND)
    commit = type(lake).commit

    def commit_after_another_run(*arguments: object, **options: object) -> object:
        monkeypatch.undo()
        park(context, context.lake(cold, KIND))
        return commit(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(type(lake), "commit", commit_after_another_run)
    code, line = run_failing("park", cold)
    assert (code, line) == (5, f"another run writes to {cold}. Wait until it ends, then run this command again.")

    write_cancel()
    write_cancel()
    position = TopicPartition(topic, 0, 2)
    admin.delete_records([position])[position].result(LIMIT_S)
    code, line = run_failing("park", cold)
    assert (code, line.split(":")[0]) == (4, f"{topic} has lost records that were never read")


def test_bulk_can_limit_the_number_of_messages_that_are_already_due(
    run_failing: RunFailing, context: JobContext, consume: Consume, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"at": 1700000000000}\n{"at": 1700000000001}\n{"at": "x"}\n', "utf-8")
    arguments = ("bulk", str(rows), "--format", "jsonl", *_ROW_OPTIONS)
    sentence = "2 of 2 messages are already due. Nothing was sent."
    assert run_failing(*arguments, "--fail-on-past") == (6, sentence)
    assert run_failing(*arguments, "--max-past", "1") == (6, sentence)
    assert consume(context.topic("requests")) == []
    assert main([*arguments, "--max-past", "2", *installation_options(context), "--on-rejected", "pass", "--json"]) == 0
    [line] = capfd.readouterr().out.splitlines()
    summary = json.loads(line)
    assert summary["counts"] == {"messages": 2, "past": 2, "rejected": 1, "rejected-bad-due": 1, "sent": 2}
    assert (summary["command"], summary["exit_code"], summary["nothing"]) == ("bulk", 0, False)
    dry_run = ("--dry-run", "--rejects", str(tmp_path / "kept"), "--on-rejected", "fail")
    assert main([*arguments, *installation_options(context), *dry_run]) == 3


def test_the_exit_code_of_java_decides_the_error_message() -> None:
    def message_of(code: int) -> str:
        error = java_ended(code)
        assert isinstance(error, PipelineError)
        return str(error)

    assert message_of(-9) == "Spark's Java was killed with SIGKILL (the system does that when memory runs out)."
    assert message_of(-15) == "Spark's Java was killed with SIGTERM."
    assert message_of(3) == "Spark's Java ran out of memory. Give it more with --memory."
    assert message_of(1) == "Spark's Java ended with code 1; see its output above."


#: Code that makes a command fail in its own process: Java runs out of memory, is killed, or reads a missing path.
_CAUSES = {
    "memory": "context.spark.sparkContext._gateway.new_array(context.spark._jvm.long, 2**30)",
    "working": "[child] = children(); Timer(2, os.kill, (child, 9)).start(); "
    "context.spark.range(10**12).selectExpr('sum(hash(id))').collect()",
    "path": "context.spark.read.parquet('/nope.parquet')",
}
_SCRIPT = """
import os, sys
from pathlib import Path
from threading import Timer
from pyspark.sql import functions as F
from pipeline.__main__ import main
from pipeline.jobs import bulk

def children():
    return [int(pid) for task in Path('/proc/self/task').iterdir() for pid in (task / 'children').read_text().split()]

def run(context, options):
    CODE

bulk.run = run
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("cause", _CAUSES)
def test_a_command_whose_java_ends_prints_one_line(context: JobContext, own_spark: dict[str, str], cause: str) -> None:
    arguments = ["bulk", "INPUT", *_ROW_OPTIONS, *installation_options(context)]
    arguments += ["--master", "local[1]", "--memory", "640m", "--json"]
    script = _SCRIPT.replace("CODE", _CAUSES[cause])
    environment = own_spark | {"PYTHONPATH": str(ROOT)}
    process = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )

    advice = "Some of the requests may already be sent. Run the same command again; each message is delivered once."
    killed = f"Spark's Java was killed with SIGKILL (the system does that when memory runs out). {advice}"
    messages = {
        "memory": f"Spark's Java ran out of memory. Give it more with --memory. {advice}",
        "working": killed,
        "path": "there is nothing at /nope.parquet. Check that it has been written.",
    }
    lines = [line for line in process.stderr.splitlines() if not line.startswith(("Picked up", "Terminating due to"))]
    assert lines == [messages[cause]]
    assert (process.returncode, json.loads(process.stdout)["error"]) == (1, messages[cause])
