"""What is parked: versions of messages, and what makes older versions of an id void."""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.cold.records import CONDITIONAL
from pipeline.lake import Lake, schema
from punctual.contract import headers as names

_VERSION = {"id": "string", "partition": "int", "offset": "long"}
_CONTENT = {"to": "string", "key": "binary", "value": "binary", "headers": "headers"}
MESSAGES = schema(**_VERSION, due_ms="long", order_ms="long", source="string", **_CONTENT)
VOIDS = schema(**_VERSION)

#: Nothing is parked under an id.
_NOTHING = -1


@dataclass(frozen=True)
class ColdState:
    """All versions of all messages, and `voids`: versions of an id at lower offsets than its void's don't count."""

    messages: DataFrame
    voids: DataFrame

    @classmethod
    def of(cls, lake: Lake) -> "ColdState":
        """Return what the tables of the last commit say."""
        return cls(lake.read("messages", MESSAGES), lake.read("voids", VOIDS))

    def plus(self, other: "ColdState") -> "ColdState":
        """Return both together."""
        return ColdState(self.messages.unionByName(other.messages), self.voids.unionByName(other.voids))

    def of_these(self, few: DataFrame) -> "ColdState":
        """Return these messages alone, so `few` that each executor can know all their ids, with their voids."""
        return ColdState(few, self.voids.join(F.broadcast(few.select("id")), "id", "left_semi"))

    def live(self) -> DataFrame:
        """Return the messages that are parked now."""
        last = self.voids.groupBy("id").agg(F.max("offset").alias("void"))
        return self.messages.join(last, "id", "left").where("void is null or offset >= void").select(MESSAGES.names)

    def after(self, rows: DataFrame) -> "ColdState":
        """Return what later records (`records.parsed`) add to what is parked."""
        added, moved = plain(rows), self.moved(rows)
        return added if moved is None else added.plus(moved)

    def moved(self, rows: DataFrame) -> "ColdState | None":
        """Return what those of later records add whose effect depends on what is parked; None if there are none.

        For them alone messages are looked up.
        """
        ids = rows.where(_depends()).select("id").distinct()
        if ids.isEmpty():
            return None
        return self._moved(rows.drop("epoch").join(ids, "id", "left_semi"), ids)

    def _moved(self, rows: DataFrame, ids: DataFrame) -> "ColdState":
        """Apply the records of these ids one after the other."""
        known = ColdState(self.messages.join(F.broadcast(ids), "id", "left_semi"), self.voids).live()
        steps = known.withColumns({"op": F.lit("park"), "if_due_ms": F.lit(None).cast("long")}).unionByName(rows)
        steps = steps.withColumn("latest_ms", _said(names.FIRST) + _said(names.NO_LATER))
        ends = (
            steps.groupBy("id")
            .agg(F.array_sort(F.collect_list(F.struct(*_STEP))).alias("steps"))
            .select("id", F.aggregate("steps", _begin(), _next).alias("end"), F.element_at("steps", -1).alias("last"))
        )
        last = ends.select("id", F.col("last.partition").alias("partition"), F.col("last.offset").alias("offset"))
        # Where the last record parks a message, that one stands for itself.
        kept = ends.where((F.col("end.base") != _NOTHING) & (F.col("last.op") != "park")).select(
            "id",
            F.col("last.partition").alias("partition"),
            F.col("last.offset").alias("offset"),
            *(F.col(f"end.{name}").alias(name) for name in ("base", "due_ms")),
            *(F.col(f"last.{name}").alias(name) for name in ("order_ms", "source")),  # also if it has changed nothing
        )
        contents = steps.where("op = 'park'").select("id", F.col("offset").alias("base"), *_CONTENT)
        return ColdState(kept.join(contents, ["id", "base"]).select(MESSAGES.names), last)


#: What is needed of a record to apply it, in the order of offsets.
_STEP = ("offset", "partition", "op", "due_ms", "if_due_ms", "order_ms", "source", "latest_ms")


def plain(rows: DataFrame) -> ColdState:
    """Return what records (`records.parsed`) add that don't depend on what is parked."""
    return ColdState(rows.where("op = 'park'").select(MESSAGES.names), rows.where(_makes_void()).select(VOIDS.names))


def _makes_void() -> Column:
    """Return whether a record makes void what is before it: all do but those of automatic ids, which are new."""
    automatic = (F.col("op") == "park") & (F.col("id") == F.col("source"))
    return ~automatic & ~_depends()


def _depends() -> Column:
    """Return whether a record's effect depends on what is parked."""
    return F.col("op").isin(*CONDITIONAL) | ((F.col("op") == "cancel") & F.col("if_due_ms").isNotNull())


def _begin() -> Column:
    no_time = F.lit(None).cast("long")
    return F.struct(F.lit(_NOTHING).cast("long").alias("base"), no_time.alias("due_ms"), no_time.alias("latest_ms"))


def _said(name: str) -> Column:
    """Return what a header of a parked message says, a number; null if there is none."""
    found = F.filter("headers", lambda each: each["key"] == name)
    return F.try_element_at(found, F.lit(1))["value"].cast("string").try_cast("long")


def _next(state: Column, step: Column) -> Column:
    """Return what is parked under an id after one more record."""
    there = (state["base"] != _NOTHING) & (step["if_due_ms"].isNull() | (step["if_due_ms"] == state["due_ms"]))
    latest = state["latest_ms"]
    parked = F.struct(
        step["offset"].alias("base"), step["due_ms"].alias("due_ms"), step["latest_ms"].alias("latest_ms")
    )
    # A message is due no later than its bound, one to be delivered now no later than it was; least() passes over nulls.
    before = F.when(step["op"] == "deliver-now", state["due_ms"])
    moved = F.struct(state["base"].alias("base"), F.least(step["due_ms"], latest, before).alias("due_ms"), latest)
    return (
        F.when(step["op"] == "park", parked)
        .when(step["op"] == "void", _begin())
        .when((step["op"] == "cancel") & there, _begin())
        .when(step["op"].isin(*CONDITIONAL) & there, moved)
        .otherwise(state)
    )
