"""`make run NAME=pipeline`: a million messages, due over two years, go through Spark, Kafka and a worker, and back.

Bulk, worker, cold tier, promotion, delivery, ledger, reconciliation, report. Two years pass in a few minutes: due times
are compressed, and the horizon is three minutes.
"""

import argparse
import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from app.dev.broker import broker_or_given
from pipeline.__main__ import parser
from pipeline.context import JobContext
from pipeline.errors import PipelineError
from pipeline.jobs import JOBS
from pipeline.kafka import Kafka
from pipeline.session import session

if TYPE_CHECKING:
    from collections.abc import Iterator

_TO = "reminders"
_YEARS_S = 2 * 365 * 86_400
_LEAD, _EVERY_S = "PT150S", 10.0
_READY_S = 60.0
#: Spark uses every core and is in no hurry, whereas the worker must not be late.
_NICE = 10
#: Messages per second that are scheduled, ingested, parked and searched when all of that shares two cores. The first
#: message is due after that is done.
_READY_PER_S = 4_000


def main() -> int:
    """Run the demo; return the exit code of its `reconcile`."""
    parser = argparse.ArgumentParser(prog="make run NAME=pipeline", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="number of messages (default: %(default)s)")
    parser.add_argument(
        "--minutes", type=float, default=10, help="minutes into which two years are compressed (default: %(default)s)"
    )
    parser.add_argument("--out", default=".data/demo-pipeline", help="directory of the results (default: %(default)s)")
    options = parser.parse_args()
    with broker_or_given() as bootstrap, tempfile.TemporaryDirectory() as data:
        os.environ |= _settings(bootstrap, data)
        asyncio.run(_create(bootstrap))
        with _worker():
            os.nice(_NICE)
            with session("punctual demo") as spark:
                context = JobContext(spark, Kafka(bootstrap), os.environ["DELAY_APP_ID"])
                out = Path(options.out, context.app_id).absolute()
                return _demonstrate(context, options.rows, options.minutes, out)


async def _create(bootstrap: str) -> None:
    """Create the destination topic."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(_TO, 4, 1)])
    finally:
        await admin.close()


def _settings(bootstrap: str, data: str) -> dict[str, str]:
    """Return the worker's settings; variables that the caller has set keep their values."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    settings = {
        "KAFKA_BOOTSTRAP_SERVERS": bootstrap,
        "DELAY_APP_ID": f"demo-{uuid.uuid4().hex[:8]}",
        "DELAY_PARTITIONS": "4",
        "DELAY_REPLICATION_FACTOR": "1",
        "DELAY_DESTINATIONS": "*",
        "DELAY_HORIZON": "PT3M",
        "DELAY_DEDUPE_WINDOW": "PT10M",
        "DATADIR": f"{data}/worker",
        "PORT": port,
    }
    return {name: os.environ.get(name, value) for name, value in settings.items()}


@contextmanager
def _worker() -> "Iterator[None]":
    """Run a worker until the block ends."""
    command = [sys.executable, "-m", "faust", "-A", "app", "worker", "-l", "warning"]
    process = subprocess.Popen(command)  # noqa: S603 - our own arguments
    try:
        deadline = time.monotonic() + _READY_S
        while not _ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise PipelineError("The worker did not start; see its output above.")
            time.sleep(0.2)
        yield
    finally:
        process.terminate()
        process.wait()


def _ready() -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{os.environ['PORT']}/health/ready", timeout=1) as answer:
            return bool(answer.status == 200)  # noqa: PLR2004 - HTTP's
    except OSError:
        return False


def _demonstrate(context: JobContext, rows: int, minutes: float, out: Path) -> int:
    intro = f"{rows:,} messages, due over two years that pass in {minutes:g} minutes. Results are in {out}."
    print(intro, flush=True)
    source, cold, ledger = f"{out}/input", f"{out}/cold", f"{out}/ledger"
    _make(context, rows, source)
    begin = time.time() + 60 + rows / _READY_PER_S
    squeezed = f"cast({begin} * 1000 + day_s * {minutes * 60 / _YEARS_S} * 1000 as long)"
    mapping = ("--natural-key", "number", "--at", squeezed, "--to", _TO, "--value", "text")
    _do(context, "bulk", source, "--job", "demo", *mapping)
    end = begin + minutes * 60
    while time.time() < end:
        began = time.monotonic()
        _do(context, "park", cold)
        _do(context, "promote", cold, "--lead", _LEAD)
        time.sleep(max(0.0, _EVERY_S - (time.monotonic() - began)))
    time.sleep(_EVERY_S)
    _do(context, "ledger", ledger, "--no-values")
    balanced = _do(context, "reconcile", ledger, "--out", str(out / "account"))
    _do(context, "report", ledger, "--out", str(out / "report.html"))
    print(f"See {out / 'report.html'}.", flush=True)
    return balanced


def _make(context: JobContext, rows: int, path: str) -> None:
    """Write the input: rows with a number, a time within two years (seconds from now) and the text of a reminder."""
    number = F.col("id").alias("number")
    day_s = (F.rand(seed=1) * _YEARS_S).alias("day_s")
    text = F.concat(F.lit("reminder "), F.col("id"), F.lit(" "), F.repeat(F.lit("."), 150)).alias("text")
    context.spark.range(rows).select(number, day_s, text).write.mode("overwrite").parquet(path)


def _do(context: JobContext, *command: str) -> int:
    """Run the command with these arguments in this process; return its exit code."""
    print(f"\n$ python -m pipeline {' '.join(command)}", flush=True)
    options = parser(JOBS).parse_args([*command, "--bootstrap", context.kafka.bootstrap, "--app-id", context.app_id])
    return int(JOBS[options.command].run(context, options) or 0)


if __name__ == "__main__":
    sys.exit(main())
