"""Commands on many pending messages at once, chosen by what the ledger knows of them."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.bulk.due import due_ms
from pipeline.bulk.expressions import Expression, attempt
from pipeline.errors import OptionInvalid, SchemaMismatch
from pipeline.headers import joined, moment
from punctual.contract import headers as names

#: What a condition or a new due time may speak of; `due` and `accepted` are timestamps.
COLUMNS = ("id", "source", "to", "due", "accepted")
#: More than 15 digits are malformed (punctual.contract.times).
_MAX_MS = 10**15 - 1


def selected(pending: DataFrame, where: str) -> DataFrame:
    """Return those of the ledger's pending messages for which a condition over COLUMNS is true.

    Columns: COLUMNS, due_ms (long), partition (int).

    Raises OptionInvalid, SchemaMismatch.
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
    """Return the command that cancels each, if it is due when the ledger says: columns as `Kafka.write` has them."""
    return _commands(chosen, {names.OP: F.lit("cancel")})


def moved(chosen: DataFrame, *, shift_ms: int | None = None, at: str | None = None) -> DataFrame:
    """Add to each message when it will be due, as new_ms, and leave out those that are due then already.

    Either so many milliseconds later (or earlier, but not before 1970), or when an expression over COLUMNS says; new_ms
    is null where that is no time.

    Raises OptionInvalid, SchemaMismatch.
    """
    if shift_ms is not None:
        new = F.greatest(F.col("due_ms") + shift_ms, F.lit(0))
    elif at is not None:
        said = Expression.of(chosen.select(*COLUMNS), "--at", at)
        chosen = chosen.withColumn("said", attempt(said.column))
        new = due_ms(F.col("said.value"), said.kind, said.option)
    else:
        raise OptionInvalid("The new due time is missing. Give --shift or --at.")
    there = chosen.withColumn("new_ms", new)
    possible = F.when(F.col("new_ms").between(0, _MAX_MS), F.col("new_ms"))
    return there.withColumn("new_ms", possible).drop("said").where("not new_ms <=> due_ms")


def reschedules(messages: DataFrame) -> DataFrame:
    """Return the command that moves each to new_ms, if it is due when the ledger says: columns as above."""
    return _commands(messages, {names.OP: F.lit("reschedule"), names.AT: moment(F.col("new_ms"))})


def _commands(chosen: DataFrame, told: dict[str, Column]) -> DataFrame:
    # Only if it is due then: a command that is sent again finds the message gone or moved, and does nothing.
    own = told | {names.ID: F.col("id"), names.IF_DUE: moment(F.col("due_ms"))}
    nothing = F.lit(None).cast("binary")
    return chosen.select(nothing.alias("key"), nothing.alias("value"), joined(own).alias("headers"), "partition")
