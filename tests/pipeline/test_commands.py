"""`cancel` and `reschedule` of many messages that are selected from the ledger."""

import argparse
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import DataFrame, SparkSession

from pipeline.bulk.commands import moved, selected
from pipeline.bulk.expressions import SETTINGS
from pipeline.bulk.sending import using
from pipeline.context import JobContext
from pipeline.errors import OptionInvalid, SchemaMismatch, TooMany
from pipeline.jobs import cancel, reschedule
from pipeline.ledger import KIND
from pipeline.ledger.tables import ACCEPTED
from punctual.contract.native import decode
from punctual.contract.request import Request
from tests.pipeline.conftest import PARTITIONS, Consume
from tests.pipeline.records import ConsumedRecord

JANUARY, DAY, HOUR = 4_070_908_800_000, 86_400_000, 3_600_000  # January of 2099.
ORDERS = "to = 'orders' and due < '2099-01-04'"


@pytest.fixture
def ledger(context: JobContext, tmp_path: Path) -> str:
    """Return the path of a ledger with eight pending messages of a job, due in the first days of 2099.

    Every second message is for `orders`.
    """
    root = str(tmp_path / "ledger")
    rows = [
        (f"job:{n}", f"r-0-{n}", ("orders", "mails")[n % 2], 1000 + n, JANUARY + n * DAY, n % PARTITIONS, n)
        for n in range(8)
    ]
    context.lake(root, KIND).commit({"accepted": context.spark.createDataFrame(rows, ACCEPTED)})
    return root


def run(job: ModuleType, context: JobContext, *arguments: str) -> None:
    parser = argparse.ArgumentParser()
    job.add_options(parser)
    job.run(context, parser.parse_args(arguments))


def commands_sent(context: JobContext, consume: Consume) -> dict[str, tuple[int, Request]]:
    """Return the partition of each id's command, and the command as the worker decodes it."""
    requests = [
        (message.partition(), decode(ConsumedRecord(message))) for message in consume(context.topic("requests"))
    ]
    return {request.id: (partition, request) for partition, request in requests}


def test_selected_messages_are_counted_and_only_cancelled_with_apply(
    context: JobContext, consume: Consume, ledger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--ledger", ledger, "--where", ORDERS]

    run(cancel, context, *arguments)
    with pytest.raises(TooMany, match="2 messages match, and --limit is 1"):
        run(cancel, context, *arguments, "--limit", "1", "--apply")

    assert consume(context.topic("requests")) == []
    output = capsys.readouterr().out
    assert "2 messages" in output
    assert f"{'orders':<50}  {2:>13}" in output
    assert f"2099-01-01 00:00  {1:>13}" in output

    run(cancel, context, *arguments, "--limit", "2", "--apply")

    commands = commands_sent(context, consume)
    assert {id_: (partition, command.op, command.if_due_ms) for id_, (partition, command) in commands.items()} == {
        "job:0": (0, "cancel", JANUARY),
        "job:2": (2, "cancel", JANUARY + 2 * DAY),
    }


def test_selected_messages_are_rescheduled_if_their_due_time_is_still_the_one_in_the_ledger(
    context: JobContext, consume: Consume, ledger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--ledger", ledger, "--where", f"id like 'job:%' and {ORDERS}"]

    run(reschedule, context, *arguments, "--shift", "P1D")
    assert consume(context.topic("requests")) == []
    assert f"2099-01-04 00:00  {1:>13}" in capsys.readouterr().out.split("due then")[1]
    with pytest.raises(OptionInvalid, match="--at gives no time for 1 of the messages"):
        run(reschedule, context, *arguments, "--at", "if(id = 'job:0', 'never', '2100-01-01')", "--apply")
    assert consume(context.topic("requests")) == []

    run(reschedule, context, *arguments, "--shift=-PT2H", "--apply")

    commands = commands_sent(context, consume)
    assert {
        id_: (partition, command.op, command.if_due_ms, command.due_ms)
        for id_, (partition, command) in commands.items()
    } == {
        "job:0": (0, "reschedule", JANUARY, JANUARY - 2 * HOUR),
        "job:2": (2, "reschedule", JANUARY + 2 * DAY, JANUARY + 2 * DAY - 2 * HOUR),
    }


def _pending(spark: SparkSession) -> DataFrame:
    rows = [("a", "r-0-0", "orders", 1000, 0, 5000), ("b", "r-0-1", "mails", 90_000, 1, 7000)]
    return spark.createDataFrame(
        rows, "id string, source string, to string, due_ms long, partition int, accepted_ms long"
    )


def test_a_new_due_time_is_not_before_1970_and_an_unchanged_message_gets_no_command(spark: SparkSession) -> None:
    pending = selected(_pending(spark), "true")
    with using(spark, SETTINGS):
        earlier = moved(pending, shift_ms=-60_000).select("id", "new_ms")
        fixed = moved(pending, at="greatest(due, timestamp'1970-01-01 00:01:00')").select("id", "new_ms")
        rows = [*earlier.collect(), *fixed.collect()]

    assert [tuple(row) for row in rows] == [("a", 0), ("b", 30_000), ("a", 60_000)]


def test_a_condition_can_compare_times_as_timestamps(spark: SparkSession) -> None:
    rows = selected(_pending(spark), "accepted between '1970-01-01 00:00:06' and '1970-01-01 00:00:08'")
    assert [row["id"] for row in rows.collect()] == ["b"]
    with pytest.raises(SchemaMismatch, match="there is no column `due_ms`, there are id, source, to, due, accepted"):
        selected(_pending(spark), "due_ms > 1")
    with pytest.raises(SchemaMismatch, match=r"is of the type timestamp, which is not a condition"):
        selected(_pending(spark), "due")
