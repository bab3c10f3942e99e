"""`bulk` on a real Kafka: requests that arrive, rows that are rejected, and the rate."""

import argparse
import itertools
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Message

from pipeline.context import JobContext
from pipeline.errors import LEFT
from pipeline.jobs import bulk
from punctual.contract.home import home_partition
from punctual.contract.native import decode
from punctual.contract.request import Request
from tests.harness.pace import usual_ms
from tests.harness.waiting import crowd
from tests.pipeline.conftest import PARTITIONS, Consume
from tests.pipeline.records import ConsumedRecord

DUE = 4_000_000_000_000
#: Further than the usual five years, so that tests need not know what year it is.
FAR = ("--max-delay", "P36500D")


def run(context: JobContext, *words: str) -> int:
    parser = argparse.ArgumentParser()
    bulk.add_options(parser)
    return bulk.run(context, parser.parse_args([*words, *FAR]))


def json_lines(path: Path, rows: int) -> str:
    path.write_text(
        "".join(json.dumps({"number": number, "at": DUE + number}) + "\n" for number in range(rows)), encoding="utf-8"
    )
    return str(path)


def asked(message: Message) -> Request:
    """Return the request as the worker reads it."""
    return decode(ConsumedRecord(message))


@pytest.mark.core
def test_rows_arrive_as_requests_in_the_homes_of_their_ids(
    context: JobContext, consume: Consume, tmp_path: Path
) -> None:
    rows, inputs = 40, (context.topic("requests"), "orders")
    # Some of the ids are of the shape that lives where it says.
    words = [
        json_lines(tmp_path / "rows.jsonl", rows),
        "--format",
        "jsonl",
        "--job",
        "job",
        "--at",
        "at",
        "--to",
        "out",
    ]
    words += ["--key", "number", "--value", "if(number = 7, null, concat('v', number))", "--inputs", "orders=etf1"]
    words += ["--id", "if(number % 2 = 0, concat('orders-1-', number), concat('job:', number))"]
    words += ["--header", "again='b'", "--header", "none=null", "--header", "again=number", "--to-partition", "3"]

    assert run(context, *words, "--max-late", "PT1H", "--if-late", "drop") == 0

    messages = consume(context.topic("requests"))
    requests = {request.id: request for request in map(asked, messages)}
    assert len(messages) == len(requests) == rows
    assert {message.partition() for message in messages} == set(range(PARTITIONS))
    assert all(message.partition() == home_partition(asked(message).id, inputs, PARTITIONS) for message in messages)
    one, other = requests["job:7"], requests["orders-1-8"]
    assert (one.key, one.value, other.value) == (b"7", None, b"v8")
    assert (one.op, one.to, one.due_ms, one.partition) == ("schedule", "out", DUE + 7, 3)
    assert (one.dedupe_ms, one.max_late_ms, one.if_late) == (7 * 86_400_000, 3_600_000, "drop")
    assert one.headers == [("again", b"b"), ("none", None), ("again", b"7")]


@pytest.mark.core
def test_bad_rows_are_kept_and_a_dry_run_sends_nothing(
    context: JobContext, consume: Consume, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, kept = tmp_path / "rows.csv", tmp_path / "rejects"
    source.write_text(
        'number,at,say\n007,2027-01-01,"a ""b"", c"\n8,never,x\n9\n10,2027-01-02T00:00:00Z,\n11,1,"y"\n', "utf-8"
    )
    words = [str(source), "--format", "csv", "--job", "job", "--at", "at", "--to", "out"]
    words += ["--value", "say", "--natural-key", "number"]

    assert run(context, *words, "--dry-run") == LEFT
    assert consume(context.topic("requests")) == []
    told = capsys.readouterr().out
    assert "3 messages, 1 of them already due" in told
    assert "1 are due before 1973" in told
    assert {
        "out                                                             3",
        "2027-01-02 00:00              1  " + "#" * 40,
    } <= set(told.splitlines())

    assert run(context, *words, "--rejects", str(kept)) == 0
    assert sorted(message.value() or b"" for message in consume(context.topic("requests"))) == [b"", b'a "b", c', b"y"]
    rejects = context.spark.read.parquet(str(kept)).orderBy("delay_reason").collect()
    assert [(row["number"], row["at"], row["delay_reason"]) for row in rejects] == [
        ("8", "never", "bad-due"),
        ("9", None, "unreadable"),
    ]
    again = [str(next(kept.iterdir())), *words[3:], "--dry-run"]
    assert run(context, *again) == LEFT


def test_a_run_keeps_its_pace_and_after_a_kill_the_same_again_asks_for_the_same(
    context: JobContext, consume: Consume, tmp_path: Path, own_spark: dict[str, str]
) -> None:
    # Both in one test, since a process with a JVM of its own takes long.
    rows, rate, topic = 3000, 300, context.topic("requests")
    words = [
        json_lines(tmp_path / "rows.jsonl", rows),
        "--format",
        "jsonl",
        "--job",
        "job",
        "--at",
        "at",
        "--to",
        "out",
    ]
    words += ["--value-json", "*", "--natural-key", "number"]
    where = ["--bootstrap", context.kafka.bootstrap, "--app-id", context.app_id, "--master", "local[2]"]
    command = [sys.executable, "-m", "pipeline", "bulk", *words, *FAR, "--max-per-second", str(rate), *where]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=own_spark) as process:
        deadline = time.monotonic() + 180
        while sum(context.kafka.ends(context.spark, topic)[topic].values()) < 2 * rate:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
    stamps = sorted(message.timestamp()[1] for message in consume(topic))
    assert 0 < len(stamps) < rows
    # Never ahead of the rate by more than one batch, and without a long pause. On a busy machine the first message can
    # be late, and the next ones are ahead of it by the messages that were due in the meantime.
    ahead = [place - rate * (stamp - stamps[0]) / 1000 for place, stamp in enumerate(stamps)]
    assert max(ahead) < rate / 2 * crowd()
    assert max(usual_ms(stamp, later) for stamp, later in itertools.pairwise(stamps)) < 1000

    assert run(context, *words) == 0

    messages = consume(topic)
    told = {(request.id, request.due_ms, request.value) for request in map(asked, messages)}
    assert len(messages) > rows
    assert len(told) == len({each[0] for each in told}) == rows
