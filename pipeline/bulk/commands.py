"""Commands on many pending messages at once, which are selected from the ledger."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.bulk.due import MAX_MS, due_ms
from pipeline.bulk.expressions import Attempt, Expression
from pipeline.errors import OptionInvalid, SchemaMismatch
from pipeline.headers import joined, moment
from punctual.contract import headers as names

#: The columns that a condition or a new due time can use; `due` and `accepted` are timestamps.
COLUMNS = ("id", "source", "to", "due", "accepted")


def selected(pending: DataFrame, where: str) -> DataFrame:
    """Return the ledger's pending messages that meet the condition `where`, an expression over COLUMNS.

    Columns: COLUMNS, due_ms (long), partition (int). Raises OptionInvalid, SchemaMismatch.
    """
    due, accepted = F.timestamp_millis("due_ms").alias("due"), F.timestamp_millis("accepted_ms").alias("accepted")
    known = pending.select("id", "source", "to", due, accepted, "due_ms", "partition")
    condition = Expression.of(known.select(*COLUMNS), "--where", where)
    if condition.kind.typeName() not in ("boolean", "void"):
        raise SchemaMismatch(
            f"--where {where!r} is of the type {condition.kind.simpleString()}, which is not a condition. Use one."
        )
    return known.where(condition.column)


def cancels(chosen: DataFrame) -> DataFrame:
    """Return commands that cancel the chosen messages whose due time is still the ledger's (for `Kafka.write`)."""
    return _commands(chosen, {names.OP: F.lit("cancel")})


def moved(chosen: DataFrame, *, shift_ms: int | None = None, at: str | None = None) -> DataFrame:
    """Add each message's new due time as new_ms, and leave out messages whose due time would not change.

    The new due time is `shift_ms` later (or earlier, but not before 1970), or the value of `at`, an expression over
    COLUMNS; new_ms is null where that value is not a time.

    Raises OptionInvalid, SchemaMismatch.
    """
    if shift_ms is not None:
        new = F.greatest(F.col("due_ms") + shift_ms, F.lit(0))
    elif at is not None:
        expression = Expression.of(chosen.select(*COLUMNS), "--at", at)
        attempt = Attempt.of("new_at", expression.column)
        chosen = chosen.withColumn("new_at", attempt.column)
        new = due_ms(attempt.value, expression.kind, expression.option)
    else:
        raise OptionInvalid("The new due time is missing. Give --shift or --at.")
    there = chosen.withColumn("new_ms", new)
    possible = F.when(F.col("new_ms").between(0, MAX_MS), F.col("new_ms"))
    return there.withColumn("new_ms", possible).drop("new_at").where("not new_ms <=> due_ms")


def reschedules(messages: DataFrame) -> DataFrame:
    """Return commands that move messages to new_ms if their due time is still the ledger's (for `Kafka.write`)."""
    return _commands(messages, {names.OP: F.lit("reschedule"), names.AT: moment(F.col("new_ms"))})


def _commands(chosen: DataFrame, headers: dict[str, Column]) -> DataFrame:
    # The condition makes a repeated command harmless: the message is gone by then, or its due time has changed.
    own = headers | {names.ID: F.col("id"), names.IF_DUE: moment(F.col("due_ms"))}
    nothing = F.lit(None).cast("binary")
    return chosen.select(nothing.alias("key"), nothing.alias("value"), joined(own).alias("headers"), "partition")
