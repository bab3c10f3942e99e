"""`bulk` on a real Kafka: the requests that it writes, the rows that it rejects, and its rate."""

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
#: Due times may be further away than the default of five years, so that the tests do not depend on the current year.
FAR = ("--max-delay", "P36500D")


def run(context: JobContext, *arguments: str) -> int:
    parser = argparse.ArgumentParser()
    bulk.add_options(parser)
    return bulk.run(context, parser.parse_args([*arguments, *FAR]))


def json_lines(path: Path, rows: int) -> str:
    path.write_text(
        "".join(json.dumps({"number": number, "at": DUE + number}) + "\n" for number in range(rows)), encoding="utf-8"
    )
    return str(path)


def decoded_request(message: Message) -> Request:
    """Return the request in a message as a worker decodes it."""
    return decode(ConsumedRecord(message))


@pytest.mark.core
def test_each_row_becomes_a_request_in_the_home_partition_of_its_id(
    context: JobContext, consume: Consume, tmp_path: Path
) -> None:
    rows, inputs = 40, (context.topic("requests"), "orders")
    # Half of the ids have the form TOPIC-PARTITION-OFFSET, so that their home is the partition in the id.
    arguments = [
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
    arguments += ["--key", "number", "--value", "if(number = 7, null, concat('v', number))", "--inputs", "orders=etf1"]
    arguments += ["--id", "if(number % 2 = 0, concat('orders-1-', number), concat('job:', number))"]
    arguments += ["--header", "again='b'", "--header", "none=null", "--header", "again=number", "--to-partition", "3"]

    assert run(context, *arguments, "--max-late", "PT1H", "--if-late", "drop") == 0

    messages = consume(context.topic("requests"))
    requests = {request.id: request for request in map(decoded_request, messages)}
    assert len(messages) == len(requests) == rows
    assert {message.partition() for message in messages} == set(range(PARTITIONS))
    assert all(
        message.partition() == home_partition(decoded_request(message).id, inputs, PARTITIONS) for message in messages
    )
    one, other = requests["job:7"], requests["orders-1-8"]
    assert (one.key, one.value, other.value) == (b"7", None, b"v8")
    assert (one.op, one.to, one.due_ms, one.partition) == ("schedule", "out", DUE + 7, 3)
    assert (one.dedupe_ms, one.max_late_ms, one.if_late) == (7 * 86_400_000, 3_600_000, "drop")
    assert one.headers == [("again", b"b"), ("none", None), ("again", b"7")]


@pytest.mark.core
def test_bad_rows_are_written_to_rejects_and_a_dry_run_sends_no_request(
    context: JobContext, consume: Consume, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, rejects_path = tmp_path / "rows.csv", tmp_path / "rejects"
    source.write_text(
        'number,at,say\n007,2027-01-01,"a ""b"", c"\n8,never,x\n9\n10,2027-01-02T00:00:00Z,\n11,1,"y"\n', "utf-8"
    )
    arguments = [str(source), "--format", "csv", "--job", "job", "--at", "at", "--to", "out"]
    arguments += ["--value", "say", "--natural-key", "number"]

    assert run(context, *arguments, "--dry-run") == LEFT
    assert consume(context.topic("requests")) == []
    output = capsys.readouterr().out
    assert "3 messages, 1 of them already due" in output
    assert "1 are due before 1973" in output
    assert {
        "out                                                             3",
        "2027-01-02 00:00              1  " + "#" * 40,
    } <= set(output.splitlines())

    assert run(context, *arguments, "--rejects", str(rejects_path)) == 0
    assert sorted(message.value() or b"" for message in consume(context.topic("requests"))) == [b"", b'a "b", c', b"y"]
    rejects = context.spark.read.parquet(str(rejects_path)).orderBy("delay_reason").collect()
    assert [(row["number"], row["at"], row["delay_reason"]) for row in rejects] == [
        ("8", "never", "bad-due"),
        ("9", None, "unreadable"),
    ]
    retry_arguments = [str(next(rejects_path.iterdir())), *arguments[3:], "--dry-run"]
    assert run(context, *retry_arguments) == LEFT


def test_a_run_keeps_its_rate_and_the_same_run_after_a_kill_schedules_the_same_messages(
    context: JobContext, consume: Consume, tmp_path: Path, own_spark: dict[str, str]
) -> None:
    # One test has both, because a process with its own JVM takes long to start.
    rows, rate, topic = 3000, 300, context.topic("requests")
    arguments = [
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
    arguments += ["--value-json", "*", "--natural-key", "number"]
    installation = ["--bootstrap", context.kafka.bootstrap, "--app-id", context.app_id, "--master", "local[2]"]
    command = [sys.executable, "-m", "pipeline", "bulk", *arguments, *FAR, "--max-per-second", str(rate), *installation]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=own_spark) as process:
        deadline = time.monotonic() + 180
        while sum(context.kafka.ends(context.spark, topic)[topic].values()) < 2 * rate:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
    stamps = sorted(message.timestamp()[1] for message in consume(topic))
    assert 0 < len(stamps) < rows
    # The run is never ahead of the rate by more than one batch, and has no long pause. On a busy machine the first
    # message can be late, and the next messages are ahead of it by the number of messages during the delay.
    ahead = [number - rate * (stamp - stamps[0]) / 1000 for number, stamp in enumerate(stamps)]
    assert max(ahead) < rate / 2 * crowd()
    assert max(usual_ms(stamp, next_stamp) for stamp, next_stamp in itertools.pairwise(stamps)) < 1000

    assert run(context, *arguments) == 0

    messages = consume(topic)
    schedules = {(request.id, request.due_ms, request.value) for request in map(decoded_request, messages)}
    assert len(messages) > rows
    assert len(schedules) == len({schedule[0] for schedule in schedules}) == rows
