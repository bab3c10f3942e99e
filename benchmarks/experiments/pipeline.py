"""The jobs of the data pipeline, on a Spark of this machine: rows a second of each."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from benchmarks import topics
from benchmarks.errors import PromiseBroken
from benchmarks.figures import Figures
from benchmarks.sizes import Sizes
from pipeline.__main__ import parser
from pipeline.context import JobContext
from pipeline.headers import TYPE, joined
from pipeline.jobs import JOBS
from pipeline.kafka import Kafka
from pipeline.ledger import KIND
from pipeline.ledger.intake import take_in
from pipeline.session import session
from punctual.contract import headers as names

_DESTINATIONS = 5
_TOPICS = ("requests", "forwards", "events", "progress", "cold", *(f"to-{number}" for number in range(_DESTINATIONS)))
_PARTITIONS = 16
_DAY_MS = 86_400_000
_HOUR_MS = 3_600_000
#: Parked messages are due within this number of days, from an hour after the next day on.
_DAYS = 30
#: A JVM does its work several times slower until it has compiled it: a share of the rows goes first.
_WARM_UP = 20


def measure(bootstrap: str, sizes: Sizes) -> Figures:
    """Run the jobs on `pipeline_rows` messages, without a worker: Spark makes a worker's records."""
    found: dict[str, float] = {}
    with session("punctual benchmark", memory="3g") as spark:
        for rows in (sizes.pipeline_rows // _WARM_UP, sizes.pipeline_rows):
            for part in (_Messages.bulk, _Messages.ledger, _Messages.cold):
                with _installation(bootstrap) as app_id, TemporaryDirectory(prefix="punctual-bench-") as out:
                    found |= part(_Messages(JobContext(spark, Kafka(bootstrap), app_id), rows, Path(out)))
    return {"pipeline": found}


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
        self._said = F.substring(F.sha2(F.col("id").cast("string"), 512), 1, 100)  # as good as random

    def bulk(self) -> dict[str, float]:
        """Send the messages as requests by `bulk`, and read the requests."""
        made = str(self._out / "input")
        at = F.timestamp_millis(F.lit(self._now_ms) + (F.rand(1) * _DAYS * _DAY_MS).cast("long")).alias("at")
        self._all.select("id", at, self._to.alias("queue"), self._said.alias("text")).write.parquet(made)
        mapping = ("--natural-key", "id", "--at", "at", "--to-column", "queue", "--value", "text")
        seconds = _timed(lambda: self._do("bulk", made, "--job", "orders", *mapping))
        kafka, spark, topic = self._context.kafka, self._context.spark, self._context.topic("requests")
        ends = kafka.ends(spark, topic)[topic]
        read = kafka.read(spark, topic, dict.fromkeys(ends, 0), ends)
        reading = _timed(lambda: read.write.format("noop").mode("append").save())
        return {"bulk_per_s": self._rows / seconds, "read_per_s": self._rows / reading}

    def ledger(self) -> dict[str, float]:
        """Keep the ledger of requests that were accepted and delivered, and prove its account."""
        events, ledger = self._context.topic("events"), str(self._out / "ledger")
        due = {names.TO: self._to, names.AT: F.lit(self._now_ms)}
        self._write(self._context.topic("requests"), F.lit(None), self._said, due)
        offset = F.floor(F.col("id") / _PARTITIONS)
        source = F.concat_ws("-", F.lit(self._context.topic("requests")), self._home, offset)
        told = {"id": source, "at": F.lit(self._now_ms), "source": source, "due": F.lit(self._now_ms), "to": self._to}
        place = F.concat_ws("-", self._to, F.lit(0), F.col("id"))
        late = (F.rand(2) * 50).cast("long")
        self._tell(events, "accepted", told)
        self._tell(events, "delivered", {**told, "late": late, "delivered": place})
        lake = self._context.lake(ledger, KIND)
        keeping = _timed(lambda: take_in(self._context, lake))
        proving = _timed(lambda: self._do("reconcile", ledger, "--as-is"))
        scanned = 3 * self._rows  # a request and two events of each
        return {"ledger_per_s": scanned / keeping, "reconcile_per_s": scanned / proving}

    def _tell(self, topic: str, event: str, told: dict[str, Column]) -> None:
        """Write an event for each message, as a worker does."""
        said = F.struct(F.lit(event).alias("event"), *(value.alias(name) for name, value in told.items()))
        self._write(topic, told["id"], F.to_json(said), {})

    def _write(self, topic: str, key: Column, value: Column, headers: dict[str, Column]) -> None:
        with_them = joined(headers) if headers else F.array().cast(TYPE)
        texts = (column.cast("binary").alias(name) for name, column in (("key", key), ("value", value)))
        self._context.kafka.write(self._all.select(*texts, with_them.alias("headers"), self._home), topic)

    def cold(self) -> dict[str, float]:
        """Park them, promote the first hour and the next (the second time all is compiled), and merge the files."""
        cold = str(self._out / "cold")
        id_ = F.concat(F.lit("order-"), F.col("id"))
        due = F.lit(self._now_ms + _HOUR_MS) + (F.rand(3) * _DAYS * _DAY_MS).cast("long")
        source = F.concat_ws("-", F.lit("requests"), self._home, F.col("id"))
        headers = {names.OP: F.lit("schedule"), names.ID: id_, names.TO: self._to, names.AT: due, names.SOURCE: source}
        headers |= {names.PARKED: F.lit(self._now_ms), names.EPOCH: F.lit(1)}
        self._write(self._context.topic("cold"), F.lit(None), self._said, headers)
        parking = _timed(lambda: self._do("park", cold))
        size = sum(file.stat().st_size for file in (self._out / "cold" / "kind=messages").rglob("*.parquet"))
        self._do("promote", cold, "--lead", "PT2H")
        promoting = _timed(lambda: self._do("promote", cold, "--lead", "PT3H"))
        merging = _timed(lambda: self._do("park", cold, "--compact"))
        rates = {"park_per_s": self._rows / parking, "compact_per_s": self._rows / merging}
        return {**rates, "parked_bytes": size / self._rows, "promote_s": promoting}

    def _do(self, command: str, *words: str) -> None:
        """Run a command as its command line would. Raises PromiseBroken if its exit code is not 0."""
        options = parser(JOBS).parse_args([command, *words])
        with redirect_stdout(StringIO()) as said:
            code = JOBS[command].run(self._context, options)
        if code:
            raise PromiseBroken("pipeline", [f"{command} ended with {code}", said.getvalue()])


def _timed(do: Callable[[], object]) -> float:
    began = time.monotonic()
    do()
    return time.monotonic() - began
