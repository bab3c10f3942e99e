"""Decodes records of an input by its dialect, with the contract's own decoders, in Spark's Python workers."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from punctual.contract.dialects.dialects import dialect_of
from punctual.contract.namespaced import with_namespace
from punctual.contract.namespaces import parse_namespaces
from punctual.contract.policies import parse_policies, with_policies
from punctual.contract.record import PlainRecord
from punctual.contract.request import Refusal, Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

#: Separates a dialect, the namespaces of all inputs, and the policies of this input.
_WITHIN = "\n"
_parsed = lru_cache(maxsize=100)(parse_namespaces)
_policies = lru_cache(maxsize=100)(parse_policies)
_FIELDS = ("op", "id", "to", "at")


def within(dialect: str, namespaces: str) -> str:
    """Return a dialect's text with the namespaces of inputs (DELAY_NAMESPACES) appended, if there are any."""
    return f"{dialect}{_WITHIN}{namespaces}" if namespaces else dialect


def bound(dialect: str, policies: str) -> str:
    """Return the text of a dialect, or of `within`, with the policies of its input (DELAY_POLICIES) appended."""
    dialect, _, namespaces = dialect.partition(_WITHIN)
    return _WITHIN.join((dialect, namespaces, policies))


def decoded(row: dict[str, Any], dialect: str) -> Request:
    """Decode a row of `Kafka.read` by the `dialect` of its input; return the request. Raises Refusal."""
    dialect, named, policies = [*dialect.split(_WITHIN), "", ""][:3]
    reads, namespaces = dialect_of(dialect), _parsed(named)
    if namespace := namespaces.of_topic(row["topic"]):
        reads = with_namespace(reads, namespaces, namespace)
    if policies:
        reads = with_policies(reads, _policies(policies))
    headers = [(each["key"], each["value"]) for each in row["headers"] or ()]
    place = (row["topic"], row["partition"], row["offset"], row["stamp_ms"])
    return reads.decode(PlainRecord(*place, row["key"], row["value"], headers))


def with_requests(records: DataFrame, dialect: str) -> DataFrame:
    """Add the columns of each record's request: op, id, to, and at (epoch milliseconds), as texts.

    The id is null for an automatic id (topic, partition and offset). A record that its dialect refuses becomes a
    schedule whose other columns are null.
    """
    import pyarrow as pa  # noqa: PLC0415 - only inputs with another dialect than native need it

    schema = StructType([*records.schema, *(StructField(name, StringType()) for name in _FIELDS)])

    def decode(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for batch in batches:
            requests = [_fields(row, dialect) for row in batch.to_pylist()]
            columns = (pa.array(column, pa.string()) for column in zip(*requests, strict=True))
            yield pa.RecordBatch.from_arrays([*batch.columns, *columns], names=[*batch.schema.names, *_FIELDS])

    return records.mapInArrow(decode, schema)


def _fields(row: dict[str, Any], dialect: str) -> tuple[str, str | None, str | None, str | None]:
    try:
        request = decoded(row, dialect)
    except Refusal:
        return "schedule", None, None, None
    id_ = None if request.id == request.source else request.id
    return request.op, id_, request.to or None, None if request.op == "cancel" else str(request.due_ms)
