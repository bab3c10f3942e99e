"""Moves the tables of Punctual 1.x, directories of Parquet files with commits in JSON, into a Delta Lake table."""

import json
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.types import StructType

from pipeline.cold.state import MESSAGES, VOIDS
from pipeline.errors import LakeMismatch
from pipeline.lake import Lake
from pipeline.ledger.tables import EVENT_TABLES, FORWARDED, REQUESTS, RESCUED

_TABLES: dict[str, StructType] = {
    "requests": REQUESTS,
    **EVENT_TABLES,
    "rescued": RESCUED,
    "forwarded": FORWARDED,
    "messages": MESSAGES,
    "voids": VOIDS,
}
_RUN = "migrated"


def migrate(lake: Lake) -> None:
    """Copy the tables of an earlier version in the lake's directory, if there are any, into the lake, in one commit.

    `vacuum` deletes the earlier files. Raises LakeMismatch if they are of another installation.
    """
    last = _last(lake, "commits")
    if last is None:
        return
    if (last["kind"], last["source"]) != (lake.head.kind, lake.head.source):
        raise LakeMismatch(
            f"{lake.root} holds a {last['kind']} of {last['source']}, not a {lake.head.kind} of {lake.head.source}. "
            f"Use another directory, or the DELAY_APP_ID and KAFKA_BOOTSTRAP_SERVERS of its installation."
        )
    frames = {}
    for name, columns in _TABLES.items():
        paths = [f"{lake.root}/{each}" for each in last["tables"].get(name, ())]
        if paths:
            rows = lake.spark.read.schema(columns).parquet(*paths)
            frames[name] = rows.withColumn("run", F.lit(_RUN)) if name == "forwarded" else rows
    positions = {
        topic: {int(number): at for number, at in offsets.items()} for topic, offsets in last["positions"].items()
    }
    promoted = (_last(lake, "promotions/commits") or {"notes": {"last": None}})["notes"]["last"]
    lake.commit(frames, positions, last["notes"] | {"promoted": promoted, "forwarded": _RUN, "runs": 0})
    print(f"{lake.root}: the tables of an earlier version are now one Delta Lake table; `vacuum` deletes their files")


def _last(lake: Lake, directory: str) -> dict[str, Any] | None:
    """Return the last commit of an earlier version in a directory; None if there is none."""
    try:
        files = lake.spark.read.text(f"{lake.root}/{directory}/*.json", wholetext=True).collect()
    except AnalysisException:
        return None
    commits: list[dict[str, Any]] = [json.loads(row["value"]) for row in files]
    return max(commits, key=lambda each: int(each["number"]), default=None)
