"""Punctual in Dagster: a nightly bulk, the cold tier and the account. Change paths, and names of your own."""

import json
import os
import shlex
import subprocess

from dagster import (
    Definitions,
    Failure,
    In,
    Nothing,
    OpExecutionContext,
    RetryPolicy,
    ScheduleDefinition,
    job,
    op,
)

RUN = "/opt/punctual/.venv/bin/python -m pipeline"
KAFKA = {"KAFKA_BOOTSTRAP_SERVERS": "kafka-1:9092,kafka-2:9092"}
#: Object stores do not keep two runs apart: give this tag a limit of 1 in `tag_concurrency_limits` of the run queue.
ONE_AT_A_TIME = {"punctual": "cold"}
AGAIN = RetryPolicy(max_retries=3, delay=120)  # a repeated run sends no message twice


def run(context: OpExecutionContext, line: str) -> None:
    """Run a command of the pipeline; show its counts in Dagster."""
    ended = subprocess.run(  # noqa: S603 - the command lines below
        shlex.split(f"{RUN} {line} --json"), env={**os.environ, **KAFKA}, stdout=subprocess.PIPE, text=True, check=False
    )
    if ended.returncode:
        raise Failure(f"exit code {ended.returncode}; docs/reference/pipeline.md has their meanings")
    context.add_output_metadata(json.loads(ended.stdout)["counts"])


@op(retry_policy=AGAIN)
def bulk(context: OpExecutionContext) -> None:
    """Schedule a message for each row of an export."""
    run(
        context,
        "bulk /srv/exports/reminders --job reminders --at due --to reminders --value-json '*' "
        "--natural-key customer,invoice --rejects /srv/exports/rejects --max-past 1000",
    )


@op(retry_policy=AGAIN)
def promote(context: OpExecutionContext) -> None:
    """Send the messages of the cold tier that are due soon."""
    run(context, "promote /data/cold --lead PT2H")


@op(retry_policy=AGAIN)
def park(context: OpExecutionContext) -> None:
    """Store the messages that workers have passed on to the cold tier."""
    run(context, "park /data/cold")


@op(retry_policy=AGAIN)
def ledger(context: OpExecutionContext) -> None:
    """Add new requests and events to the ledger."""
    run(context, "ledger /data/ledger --compact")


@op(ins={"after": In(Nothing)}, retry_policy=AGAIN)
def rescue(context: OpExecutionContext) -> None:
    """Send lost messages again."""
    run(context, "rescue /data/ledger --as-is --apply")


@op(ins={"after": In(Nothing)}, retry_policy=AGAIN)
def reconcile(context: OpExecutionContext) -> None:
    """Fail if a message is missing."""
    run(context, "reconcile /data/ledger")


@job
def punctual_reminders() -> None:
    """Schedule the reminders of the day."""
    bulk()


@job(tags=ONE_AT_A_TIME)
def punctual_promote() -> None:
    """Send the messages that are due within two hours."""
    promote()


@job(tags=ONE_AT_A_TIME)
def punctual_park() -> None:
    """Store the messages that are due later."""
    park()


@job
def punctual_account() -> None:
    """Account for every message."""
    reconcile(after=rescue(after=ledger()))


defs = Definitions(
    jobs=[punctual_reminders, punctual_promote, punctual_park, punctual_account],
    schedules=[
        ScheduleDefinition(job=punctual_reminders, cron_schedule="15 2 * * *"),
        ScheduleDefinition(job=punctual_promote, cron_schedule="*/5 * * * *"),
        ScheduleDefinition(job=punctual_park, cron_schedule="2-59/10 * * * *"),
        ScheduleDefinition(job=punctual_account, cron_schedule="0 3 * * *"),
    ],
)
