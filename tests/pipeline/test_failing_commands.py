"""A command that fails prints the reason in one sentence, has an exit code, and leaves no partial result."""

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
_ROW = ("--job", "job", "--at", "at", "--to", "out", "--value", "at", "--id", "at")

Stops = Callable[..., tuple[int, str]]


def where(context: JobContext) -> tuple[str, ...]:
    return ("--bootstrap", context.kafka.bootstrap, "--app-id", context.app_id)


@pytest.fixture
def stops(context: JobContext, capfd: pytest.CaptureFixture[str]) -> Stops:
    """Return a function that runs a failing command line and returns its exit code and its line on stderr."""

    def run(*words: str) -> tuple[int, str]:
        capfd.readouterr()
        code = main([*words, *where(context)])
        # How long parts of it took is no error.
        said = [line for line in capfd.readouterr().err.splitlines() if not line.endswith(" s")]
        assert len(said) == 1, said
        return code, said[0]

    return run


def test_an_input_that_cannot_be_read_is_named(
    stops: Stops, context: JobContext, consume: Consume, tmp_path: Path
) -> None:
    text, cut, empty = (tmp_path / name for name in ("a.csv", "cut.parquet", "empty"))
    text.write_text("at\n1\n" * 100, "utf-8")
    parquet.write_table(pa.table({"at": list(range(100_000))}), cut)
    whole = cut.read_bytes()
    cut.write_bytes(whole[:1_000] + b"x" * 5_000 + whole[6_000:])
    empty.mkdir()
    said = {
        f"{tmp_path}/nope": f"there is nothing at {tmp_path}/nope. Check that it has been written.",
        str(text): f"{text} is not Parquet. For another format, give --format.",
        str(cut): f"{cut} cannot be read to its end (IOException: ",
        str(empty): "there are no files of Parquet in INPUT. Check that it has been written.",
    }
    for name, sentence in said.items():
        code, line = stops("bulk", name, *_ROW)
        assert (code, line[: len(sentence)]) == (1, sentence)
    assert stops("bulk", "nope", "--format", "table", *_ROW) == (
        1,
        "Spark knows no table `nope`. Check that its catalog is configured.",
    )
    assert stops("bulk", str(text), "--format", "csv", "--reader-option", "encoding=x", *_ROW)[0] == 1
    for scheme, package in (("s3a", "hadoop-aws"), ("gs", "gcs-connector"), ("abfss", "hadoop-azure")):
        code, line = stops("bulk", f"{scheme}://bucket/rows", *_ROW)
        assert (code, package in line.partition("without ")[2]) == (2, True), line
    assert stops("bulk", "s3://bucket/rows", *_ROW) == (2, "Spark does not support s3://. Write s3a:// instead.")
    assert consume(context.topic("requests")) == []


def test_an_output_that_cannot_be_written_is_told_before_the_work(stops: Stops, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for words in (["report", "--out"], ["report", "--png"], ["reconcile", "--out"]):
        command, option = words
        code, line = stops(command, str(tmp_path / "ledger"), option, "s3a://bucket/out")
        assert (code, line.split(" without ")[0]) == (2, "Spark does not support the file system s3a://")
        code, line = stops(command, str(tmp_path / "ledger"), option, f"{file}/out")
        assert (code, line.split(":")[0]) == (1, f"{file}/out cannot be written")
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"at": 1700000000000}\n', "utf-8")
    assert stops("bulk", str(rows), "--format", "jsonl", *_ROW, "--rejects", f"{file}/out")[0] == 1
    assert [path.name for path in tmp_path.iterdir() if path.name != "rows.jsonl"] == ["file"]


def test_a_destination_that_does_not_exist_is_told_by_a_dry_run_too(
    stops: Stops, context: JobContext, consume: Consume, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"at": 1700000000000, "to": "out"}\n{"at": 1700000000001, "to": "nowhere"}\n', "utf-8")
    words = ("bulk", str(rows), "--format", "jsonl", "--job", "job", "--at", "at", "--to-column", "to", "--value", "at")
    for more in ([], ["--dry-run"]):
        code, line = stops(*words, "--id", "at", *more)
        assert (code, line.split(". ")[:2]) == (
            1,
            [f"destinations are missing on {context.kafka.bootstrap}: nowhere", "Nothing was sent"],
        )
    assert consume(context.topic("requests")) == []


def test_a_directory_of_something_else_is_refused(stops: Stops, context: JobContext, tmp_path: Path) -> None:
    mine, theirs, foreign = (tmp_path / name for name in ("mine", "theirs", "foreign"))
    assert main(["ledger", str(mine), *where(context)]) == 0
    code, line = stops("park", str(mine))
    assert (code, line.split(" of ")[0]) == (1, f"{mine} holds a ledger")

    shutil.copytree(mine, theirs)
    for commit in (theirs / "_delta_log").glob("*.json"):
        commit.write_text(commit.read_text("utf-8").replace(context.app_id, "another"), "utf-8")
        commit.with_name(f".{commit.name}.crc").unlink()  # a copy to another file system leaves these behind, too
    code, line = stops("ledger", str(theirs))
    assert code == 1
    assert line.startswith(f"{theirs} holds a ledger of another on cluster ")

    context.spark.range(1).write.format("delta").save(str(foreign))
    code, line = stops("ledger", str(foreign))
    assert (code, line) == (1, f"{foreign} is a Delta table of another program. Use another directory.")


def test_a_broker_or_topic_that_is_not_there_is_told_soon(
    context: JobContext, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    with Stopwatch() as watch:
        assert main(["ledger", str(tmp_path), "--bootstrap", nobody]) == 1
    said = capfd.readouterr().err
    assert said.startswith(f"Kafka at {nobody} does not answer: ")
    assert said.count("\n") == 1
    assert watch.seconds < 5
    code = main(["park", str(tmp_path), *where(context), "--app-id", "other"])
    said = capfd.readouterr().err
    assert code == 1
    assert said.startswith(f"there is no topic other-cold on {context.kafka.bootstrap}. ")
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_cluster_is_left_to_spark_submit(
    context: JobContext, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    for more, sentence in (
        (
            ["--master", "spark://host:7077"],
            "--master spark://host:7077 is not on this machine. Give it to spark-submit",
        ),
        (["--conf", "spark.x"], "--conf spark.x is not of the form NAME=VALUE."),
    ):
        assert main(["bulk", "INPUT", *_ROW, *where(context), *more]) == 2
        assert capfd.readouterr().err.startswith(sentence)


def test_a_gap_and_a_lock_have_exit_codes_of_their_own(
    stops: Stops,
    context: JobContext,
    produce: Produce,
    admin: AdminClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cold, topic = str(tmp_path / "cold"), context.topic("cold")
    touch = {"delay-op": "cancel", "delay-id": "x", "delay-source": "r-0-0", "delay-parked": "1", "delay-epoch": "1"}

    def touched() -> None:
        produce(topic, None, headers=list(touch.items()), partition=0)

    touched()
    busy = context.lake(cold, KIND)
    commit = type(busy).commit

    def late(*arguments: object, **options: object) -> object:
        monkeypatch.undo()
        park(context, context.lake(cold, KIND))
        return commit(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(type(busy), "commit", late)
    code, line = stops("park", cold)
    assert (code, line) == (5, f"another run writes to {cold}. Wait until it ends, then run this command again.")

    touched()
    touched()
    place = TopicPartition(topic, 0, 2)
    admin.delete_records([place])[place].result(LIMIT_S)
    code, line = stops("park", cold)
    assert (code, line.split(":")[0]) == (4, f"{topic} has lost records that were never read")


def test_a_bound_on_what_is_due_already(
    stops: Stops, context: JobContext, consume: Consume, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"at": 1700000000000}\n{"at": 1700000000001}\n{"at": "x"}\n', "utf-8")
    words = ("bulk", str(rows), "--format", "jsonl", *_ROW)
    sentence = "2 of 2 messages are already due. Nothing was sent."
    assert stops(*words, "--fail-on-past") == (6, sentence)
    assert stops(*words, "--max-past", "1") == (6, sentence)
    assert consume(context.topic("requests")) == []
    assert main([*words, "--max-past", "2", *where(context), "--on-rejected", "pass", "--json"]) == 0
    [line] = capfd.readouterr().out.splitlines()
    told = json.loads(line)
    assert told["counts"] == {"messages": 2, "past": 2, "rejected": 1, "rejected-bad-due": 1, "sent": 2}
    assert (told["command"], told["exit_code"], told["nothing"]) == ("bulk", 0, False)
    assert (
        main([*words, *where(context), "--dry-run", "--rejects", str(tmp_path / "kept"), "--on-rejected", "fail"]) == 3
    )


def test_a_java_that_has_ended_is_told_by_how_it_ended() -> None:
    def said(code: int) -> str:
        error = java_ended(code)
        assert isinstance(error, PipelineError)
        return str(error)

    assert said(-9) == "Spark's Java was killed with SIGKILL (the system does that when memory runs out)."
    assert said(-15) == "Spark's Java was killed with SIGTERM."
    assert said(3) == "Spark's Java ran out of memory. Give it more with --memory."
    assert said(1) == "Spark's Java ended with code 1; see its output above."


#: Commands in a process of their own, whose Java runs out of memory, or is killed while it works.
_ENDS = {
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
    WHAT

bulk.run = run
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("what", _ENDS)
def test_of_a_java_that_ends_under_a_command_one_sentence_is_said(
    context: JobContext, own_spark: dict[str, str], what: str
) -> None:
    words = ["bulk", "INPUT", *_ROW, *where(context), "--master", "local[1]", "--memory", "640m", "--json"]
    script = _SCRIPT.replace("WHAT", _ENDS[what])
    environment = own_spark | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )

    again = "Some of the requests may already be sent. Run the same command again; each message is delivered once."
    killed = f"Spark's Java was killed with SIGKILL (the system does that when memory runs out). {again}"
    said = {
        "memory": f"Spark's Java ran out of memory. Give it more with --memory. {again}",
        "working": killed,
        "path": "there is nothing at /nope.parquet. Check that it has been written.",
    }
    lines = [line for line in done.stderr.splitlines() if not line.startswith(("Picked up", "Terminating due to"))]
    assert lines == [said[what]]
    assert (done.returncode, json.loads(done.stdout)["error"]) == (1, said[what])
