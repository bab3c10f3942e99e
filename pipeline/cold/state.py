"""The parked messages: their versions, and the voids that make older versions of an id invalid."""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.cold.records import CONDITIONAL
from pipeline.columns import schema
from pipeline.lake import Lake
from punctual.contract import headers as names

_VERSION = {"id": "string", "partition": "int", "offset": "long"}
_CONTENT = {"to": "string", "key": "binary", "value": "binary", "headers": "headers"}
MESSAGES = schema(**_VERSION, due_ms="long", order_ms="long", source="string", **_CONTENT)
VOIDS = schema(**_VERSION)

#: The offset of an id without a parked message.
_NOTHING = -1


@dataclass(frozen=True)
class ColdState:
    """All versions of parked messages, and `voids`: a version at a lower offset than its id's void does not count."""

    messages: DataFrame
    voids: DataFrame

    @classmethod
    def of(cls, lake: Lake, until_ms: int | None = None) -> "ColdState":
        """Return the state as of the last commit; with `until_ms`, at most files with messages due before that time."""
        condition = None if until_ms is None else due_before(until_ms)
        return cls(lake.read("messages", MESSAGES, condition), lake.read("voids", VOIDS))

    def plus(self, other: "ColdState") -> "ColdState":
        """Return the union of two states."""
        return ColdState(self.messages.unionByName(other.messages), self.voids.unionByName(other.voids))

    def of_these(self, few: DataFrame) -> "ColdState":
        """Return the state of these messages alone, so `few` that each executor can hold their ids."""
        return ColdState(few, self.voids.join(F.broadcast(few.select("id")), "id", "left_semi"))

    def live(self) -> DataFrame:
        """Return the messages that are parked now: versions that no void makes invalid."""
        last = self.voids.groupBy("id").agg(F.max("offset").alias("void"))
        return self.messages.join(last, "id", "left").where("void is null or offset >= void").select(MESSAGES.names)

    def after(self, rows: DataFrame) -> "ColdState":
        """Return the versions and voids that later records (`records.parsed`) add."""
        added, moved = plain(rows), self.moved(rows)
        return added if moved is None else added.plus(moved)

    def moved(self, rows: DataFrame) -> "ColdState | None":
        """Return the changes by later records whose effect depends on the parked message; None if there are none.

        Only these records need a join with the messages.
        """
        ids = rows.where(_depends()).select("id").distinct()
        if ids.isEmpty():
            return None
        return self._moved(rows.drop("epoch").join(ids, "id", "left_semi"), ids)

    def _moved(self, rows: DataFrame, ids: DataFrame) -> "ColdState":
        """Apply the records of these ids one after the other."""
        parked = ColdState(self.messages.join(F.broadcast(ids), "id", "left_semi"), self.voids).live()
        steps = parked.withColumns({"op": F.lit("park"), "if_due_ms": F.lit(None).cast("long")}).unionByName(rows)
        steps = steps.withColumn("latest_ms", _header_number(names.FIRST) + _header_number(names.NO_LATER))
        ends = (
            steps.groupBy("id")
            .agg(F.array_sort(F.collect_list(F.struct(*_STEP))).alias("steps"))
            .select("id", F.aggregate("steps", _begin(), _next).alias("end"), F.element_at("steps", -1).alias("last"))
        )
        last = ends.select("id", F.col("last.partition").alias("partition"), F.col("last.offset").alias("offset"))
        # A last record that parks a message is a version itself, which `plain` adds.
        remaining = ends.where((F.col("end.base") != _NOTHING) & (F.col("last.op") != "park")).select(
            "id",
            F.col("last.partition").alias("partition"),
            F.col("last.offset").alias("offset"),
            *(F.col(f"end.{name}").alias(name) for name in ("base", "due_ms")),
            *(F.col(f"last.{name}").alias(name) for name in ("order_ms", "source")),  # even if it was without effect
        )
        contents = steps.where("op = 'park'").select("id", F.col("offset").alias("base"), *_CONTENT)
        return ColdState(remaining.join(contents, ["id", "base"]).select(MESSAGES.names), last)


#: The fields of a record that are needed to apply it; the first one sorts records by offset.
_STEP = ("offset", "partition", "op", "due_ms", "if_due_ms", "order_ms", "source", "latest_ms")


def due_before(until_ms: int) -> str:
    """Return the SQL condition that a message is due before a time (epoch ms).

    Messages have no day until a compaction sorts them by their due times: a run of `park` would write a file for each.
    """
    last = f"timestamp_millis({until_ms})"
    return f"due < {last} and (day is null or day <= to_date({last}))"


def plain(rows: DataFrame) -> ColdState:
    """Return the changes by records (`records.parsed`) whose effect does not depend on the parked message."""
    return ColdState(rows.where("op = 'park'").select(MESSAGES.names), rows.where(_makes_void()).select(VOIDS.names))


def _makes_void() -> Column:
    """Return whether a record makes earlier versions of its id void: all do, except one with an automatic, new id."""
    automatic = (F.col("op") == "park") & (F.col("id") == F.col("source"))
    return ~automatic & ~_depends()


def _depends() -> Column:
    """Return whether a record's effect depends on the parked message."""
    return F.col("op").isin(*CONDITIONAL) | ((F.col("op") == "cancel") & F.col("if_due_ms").isNotNull())


def _begin() -> Column:
    no_time = F.lit(None).cast("long")
    return F.struct(F.lit(_NOTHING).cast("long").alias("base"), no_time.alias("due_ms"), no_time.alias("latest_ms"))


def _header_number(name: str) -> Column:
    """Return the number in a header of a parked message; null if there is none."""
    matches = F.filter("headers", lambda each: each["key"] == name)
    return F.try_element_at(matches, F.lit(1))["value"].cast("string").try_cast("long")


def _next(state: Column, step: Column) -> Column:
    """Return the parked message of an id after one more record."""
    applies = (state["base"] != _NOTHING) & (step["if_due_ms"].isNull() | (step["if_due_ms"] == state["due_ms"]))
    latest = state["latest_ms"]
    parked = F.struct(
        step["offset"].alias("base"), step["due_ms"].alias("due_ms"), step["latest_ms"].alias("latest_ms")
    )
    # A move must not exceed the message's bound, nor may `deliver-now` make it later; least() ignores nulls.
    before = F.when(step["op"] == "deliver-now", state["due_ms"])
    moved = F.struct(state["base"].alias("base"), F.least(step["due_ms"], latest, before).alias("due_ms"), latest)
    return (
        F.when(step["op"] == "park", parked)
        .when(step["op"] == "void", _begin())
        .when((step["op"] == "cancel") & applies, _begin())
        .when(step["op"].isin(*CONDITIONAL) & applies, moved)
        .otherwise(state)
    )
