"""Measures the jobs of the data pipeline on a local Spark: rows per second, and ratios to plain copies by Spark."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from benchmarks import topics
from benchmarks.errors import PromiseBroken
from benchmarks.figures import Figures
from benchmarks.sizes import Sizes
from pipeline.__main__ import parser
from pipeline.context import JobContext
from pipeline.headers import TYPE, joined
from pipeline.jobs import JOBS
from pipeline.kafka import WRITING, Kafka
from pipeline.ledger import KIND
from pipeline.ledger.intake import take_in
from pipeline.session import session
from punctual.contract import headers as names

_DESTINATIONS = 5
_TOPICS = (
    "requests",
    "forwards",
    "events",
    "progress",
    "cold",
    "plain",
    *(f"to-{number}" for number in range(_DESTINATIONS)),
)
_PARTITIONS = 16
_DAY_MS = 86_400_000
_HOUR_MS = 3_600_000
#: Parked messages are due within this number of days, from an hour after the next day on.
_DAYS = 30
#: A JVM does its work several times slower until it has compiled it: a share of the rows goes first.
_WARM_UP = 20
#: The second proof of the account has one new message for this many messages of the first.
_NEW = 100


def measure(bootstrap: str, sizes: Sizes) -> Figures:
    """Run the jobs on `pipeline_rows` messages, without a worker: Spark makes a worker's records."""
    figures: dict[str, float] = {}
    with session("punctual benchmark", memory="3g") as spark:
        for rows in (sizes.pipeline_rows // _WARM_UP, sizes.pipeline_rows):
            for part in (_Messages.bulk, _Messages.ledger, _Messages.cold):
                with _installation(bootstrap) as app_id, TemporaryDirectory(prefix="punctual-bench-") as out:
                    figures |= part(_Messages(JobContext(spark, Kafka(bootstrap), app_id), rows, Path(out)))
    return {"pipeline": figures}


@contextmanager
def _installation(bootstrap: str) -> Iterator[str]:
    app_id = f"bench-pipeline-{time.time_ns()}"
    try:
        for name in _TOPICS:
            topics.create(bootstrap, f"{app_id}-{name}", _PARTITIONS, 1)
        yield app_id
    finally:
        topics.delete_all(bootstrap, app_id)


class _Messages:
    """So many messages, as rows of an input, as requests, as events, as parked ones; and the jobs done on them."""

    def __init__(self, context: JobContext, rows: int, out: Path) -> None:
        self._context, self._rows, self._out = context, rows, out
        self._now_ms = time.time_ns() // 1_000_000
        self._all = context.spark.range(rows, numPartitions=4)
        self._home = (F.col("id") % _PARTITIONS).cast("int").alias("partition")
        self._to = F.concat(F.lit(f"{context.topic('to')}-"), F.col("id") % _DESTINATIONS)
        self._text = F.substring(F.sha2(F.col("id").cast("string"), 512), 1, 100)  # as good as random

    def bulk(self) -> dict[str, float]:
        """Send the messages as requests by `bulk`, then as plain records, and read the requests."""
        path = str(self._out / "input")
        at = F.timestamp_millis(F.lit(self._now_ms) + (F.rand(1) * _DAYS * _DAY_MS).cast("long")).alias("at")
        self._all.select("id", at, self._to.alias("queue"), self._text.alias("text")).write.parquet(path)
        mapping = ("--natural-key", "id", "--at", "at", "--to-column", "queue", "--value", "text")
        seconds = _timed(lambda: self._do("bulk", path, "--job", "orders", *mapping))
        kafka, spark, topic = self._context.kafka, self._context.spark, self._context.topic("requests")
        ends = kafka.ends(spark, topic)[topic]
        read = kafka.read(spark, topic, dict.fromkeys(ends, 0), ends)
        reading = _timed(lambda: read.write.format("noop").mode("append").save())
        rates = {"bulk_per_s": self._rows / seconds, "read_per_s": self._rows / reading}
        return {**rates, "bulk_ratio": _timed(lambda: self._sink(path)) / seconds}

    def _sink(self, path: str) -> None:
        """Send an input as requests, as a few lines of Spark would: without any check, count or hash."""
        id_ = F.concat(F.lit("orders:"), F.col("id").cast("string"))
        headers = {names.ID: id_, names.TO: F.col("queue"), names.AT: F.unix_millis("at").cast("string")}
        pairs = (
            F.struct(F.lit(name).alias("key"), each.cast("binary").alias("value")) for name, each in headers.items()
        )
        rows = self._context.spark.read.parquet(path).select(
            F.col("text").alias("value"), F.array(*pairs).alias("headers")
        )
        writer = rows.write.format("kafka").option("kafka.bootstrap.servers", self._context.kafka.bootstrap)
        for name, value in WRITING.items():
            writer = writer.option(f"kafka.{name}", value)
        writer.option("topic", self._context.topic("plain")).option("includeHeaders", "true").save()

    def _copying(self, *topics: str) -> float:
        """Return the seconds that Spark takes to copy topics to Parquet as they are."""
        reader = self._context.spark.read.format("kafka").option("includeHeaders", "true")
        reader = reader.option("kafka.bootstrap.servers", self._context.kafka.bootstrap)
        rows = reader.option("subscribe", ",".join(self._context.topic(name) for name in topics)).load()
        return _timed(lambda: rows.write.mode("overwrite").parquet(str(self._out / "copy")))

    def ledger(self) -> dict[str, float]:
        """Keep the ledger of requests that were accepted and delivered, and prove its account twice."""
        ledger = str(self._out / "ledger")
        self._live(self._all)
        lake = self._context.lake(ledger, KIND)
        keeping = _timed(lambda: take_in(self._context, lake))
        copying = self._copying("requests", "events")
        proving = _timed(lambda: self._do("reconcile", ledger))
        self._live(self._context.spark.range(self._rows, self._rows + self._rows // _NEW, numPartitions=4))
        again = _timed(lambda: self._do("reconcile", ledger))
        scanned = 3 * self._rows  # a request and two events of each
        rates = {"ledger_per_s": scanned / keeping, "reconcile_per_s": scanned / proving}
        return {**rates, "ledger_ratio": copying / keeping, "again_ratio": again / proving}

    def _live(self, messages: DataFrame) -> None:
        """Write the requests and events of messages that were accepted and delivered, as a worker does."""
        due = {names.TO: self._to, names.AT: F.lit(self._now_ms)}
        self._write(messages, self._context.topic("requests"), F.lit(None), self._text, due)
        offset = F.floor(F.col("id") / _PARTITIONS)
        source = F.concat_ws("-", F.lit(self._context.topic("requests")), self._home, offset)
        fields = {"id": source, "at": F.lit(self._now_ms), "source": source, "due": F.lit(self._now_ms), "to": self._to}
        place = F.concat_ws("-", self._to, F.lit(0), F.col("id"))
        late = (F.rand(2) * 50).cast("long")
        for event, event_fields in (("accepted", {}), ("delivered", {"late": late, "delivered": place})):
            event_value = F.struct(
                F.lit(event).alias("event"), *(each.alias(name) for name, each in (fields | event_fields).items())
            )
            self._write(messages, self._context.topic("events"), source, F.to_json(event_value), {})

    def _write(self, messages: DataFrame, topic: str, key: Column, value: Column, headers: dict[str, Column]) -> None:
        with_them = joined(headers) if headers else F.array().cast(TYPE)
        texts = (column.cast("binary").alias(name) for name, column in (("key", key), ("value", value)))
        self._context.kafka.write(messages.select(*texts, with_them.alias("headers"), self._home), topic)

    def cold(self) -> dict[str, float]:
        """Park them, promote the first hour and the next (the second time all is compiled), and merge the files.

        A promotion without work is a command of its own, as cron starts it.
        """
        cold = str(self._out / "cold")
        id_ = F.concat(F.lit("order-"), F.col("id"))
        due = F.lit(self._now_ms + _HOUR_MS) + (F.rand(3) * _DAYS * _DAY_MS).cast("long")
        source = F.concat_ws("-", F.lit("requests"), self._home, F.col("id"))
        headers = {names.OP: F.lit("schedule"), names.ID: id_, names.TO: self._to, names.AT: due, names.SOURCE: source}
        headers |= {names.PARKED: F.lit(self._now_ms), names.EPOCH: F.lit(1)}
        self._write(self._all, self._context.topic("cold"), F.lit(None), self._text, headers)
        parking = _timed(lambda: self._do("park", cold))
        copying = self._copying("cold")
        size = sum(file.stat().st_size for file in (self._out / "cold" / "kind=messages").rglob("*.parquet"))
        self._do("promote", cold, "--lead", "PT2H")
        promoting = _timed(lambda: self._do("promote", cold, "--lead", "PT3H"))
        nothing = _timed(lambda: self._command("promote", cold))
        merging = _timed(lambda: self._do("park", cold, "--compact"))
        rates = {"park_per_s": self._rows / parking, "compact_per_s": self._rows / merging}
        seconds = {"promote_s": promoting, "nothing_s": nothing}
        return {**rates, "park_ratio": copying / parking, "parked_bytes": size / self._rows, **seconds}

    def _command(self, *arguments: str) -> None:
        """Run a command in a process of its own. Raises PromiseBroken if its exit code is not 0."""
        installation = ("--bootstrap", self._context.kafka.bootstrap, "--app-id", self._context.app_id)
        command = [sys.executable, "-m", "pipeline", *arguments, *installation]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
        process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own
        if process.returncode:
            raise PromiseBroken("pipeline", [f"{arguments[0]} ended with {process.returncode}", process.stderr])

    def _do(self, command: str, *arguments: str) -> None:
        """Run a command as its command line would. Raises PromiseBroken if its exit code is not 0."""
        options = parser(JOBS).parse_args([command, *arguments])
        with redirect_stdout(StringIO()) as output:
            code = JOBS[command].run(self._context, options)
        if code:
            raise PromiseBroken("pipeline", [f"{command} ended with {code}", output.getvalue()])


def _timed(do: Callable[[], object]) -> float:
    began = time.monotonic()
    do()
    return time.monotonic() - began
