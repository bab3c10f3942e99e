"""What records of an input say in its dialect, read by the contract's own decoders where Spark works on them."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from punctual.contract.dialects import dialect_of
from punctual.contract.native import PlainRecord
from punctual.contract.request import Refusal, Request

_SAID = ("op", "id", "to", "at")


def decoded(row: dict[str, Any], dialect: str) -> Request:
    """Return the request that a row of records makes on an input that is set to `dialect`. Raises Refusal."""
    headers = [(each["key"], each["value"]) for each in row["headers"] or ()]
    place = (row["topic"], row["partition"], row["offset"], row["stamp_ms"])
    return dialect_of(dialect).decode(PlainRecord(*place, row["key"], row["value"], headers))


def said(records: DataFrame, dialect: str) -> DataFrame:
    """Return records with what they ask for beside them: op, id, to, and at (epoch milliseconds), as texts.

    The id is null where the record's place is the id. What its dialect refuses is a schedule that says nothing.
    """
    schema = StructType([*records.schema, *(StructField(name, StringType()) for name in _SAID)])

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = [_said(row, dialect) for row in batch.to_pylist()]
            columns = (pa.array(column, pa.string()) for column in zip(*found, strict=True))
            yield pa.RecordBatch.from_arrays([*batch.columns, *columns], names=[*batch.schema.names, *_SAID])

    return records.mapInArrow(decode, schema)


def _said(row: dict[str, Any], dialect: str) -> tuple[str, str | None, str | None, str | None]:
    try:
        asked = decoded(row, dialect)
    except Refusal:
        return "schedule", None, None, None
    id_ = None if asked.id == asked.source else asked.id
    return asked.op, id_, asked.to or None, None if asked.op == "cancel" else str(asked.due_ms)
