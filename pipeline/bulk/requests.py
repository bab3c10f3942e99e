"""Turns rows into delay requests: each valid, or with the reason for its rejection."""

from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.bulk.due import MAX_MS, due_ms
from pipeline.bulk.expressions import Attempt, Expression, quoted
from pipeline.bulk.inputs import BROKEN
from pipeline.bulk.mapping import Mapping, RowLimits
from pipeline.catalyst import called, java_text
from pipeline.headers import moment
from punctual.contract import headers as names
from punctual.contract.request import ID_BYTES

#: Upper bounds of the bytes that the contract's headers, and the framing of one user header, add to a record.
_OWN_BYTES, _HEADER_BYTES = 1024, 16
#: 128 bits of SHA-256, so that two natural keys never share an id.
_HASH_DIGITS = 32
#: All digits that Spark has, because its defaults cut off microseconds and leave out null columns.
_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def requests(rows: DataFrame, mapping: Mapping, limits: RowLimits) -> DataFrame:
    """Return a request for each row, or the reason for its rejection; no row makes the job fail.

    Columns: row (a struct with the original columns), id, hash (long, by which equal ids are found), to, due_ms (long),
    key, value (binary), headers (the user's, then the contract's), reason (null for a valid request). It needs
    `expressions.SETTINGS`.

    Raises OptionInvalid or SchemaMismatch for expressions that do not fit the columns.
    """
    at = Expression.of(rows, "--at", mapping.at)
    to = Expression.of(rows, "--to-column", mapping.to)
    key = Expression.of(rows, "--key", mapping.key or "null")
    place = Expression.of(rows, "--to-partition", mapping.to_partition or "null")
    fields = _Fields(
        at=Attempt.of("at", at.column, safe=at.safe),
        to=Attempt.of("to", to.text(), safe=to.safe),
        key=Attempt.of("key", key.content(), safe=key.safe),
        value=_value(rows, mapping),
        place=Attempt.of("place", place.text(), safe=place.safe),
        known=_known(rows, mapping),
        users=_users(rows, mapping),
    )
    broken = F.col(BROKEN).isNotNull() if BROKEN in rows.columns else F.lit(False)  # noqa: FBT003 - a column
    values = rows.select(F.struct("*").alias("row"), broken.alias("broken"), *fields.columns())
    due = due_ms(fields.at.value, at.kind, at.option)
    known = fields.known[0].value if mapping.id else _joined(fields.known)
    named = values.withColumns({"due_ms": due, "known_id": known})
    named = named.withColumn("id", F.col("known_id") if mapping.id else _derived(mapping.job))
    hashed = F.xxhash64("known_id") if mapping.id else F.xxhash64("known_id", "due_ms")
    return named.select(
        "row",
        "id",
        F.when(F.col("known_id").isNotNull(), hashed).alias("hash"),
        fields.to.value.alias("to"),
        "due_ms",
        fields.key.value.alias("key"),
        fields.value.value.alias("value"),
        _headers(mapping, fields).alias("headers"),
        _reason(mapping, limits, fields).alias("reason"),
    )


@dataclass(frozen=True)
class _Fields:
    """The values of a request; `known` is the id, or the columns of the natural key, and `users` the user's headers."""

    at: Attempt
    to: Attempt
    key: Attempt
    value: Attempt
    place: Attempt
    known: list[Attempt]
    users: list[Attempt]

    def columns(self) -> list[Column]:
        single = (self.at, self.to, self.key, self.value, self.place)
        return [each.column for each in (*single, *self.known, *self.users)]


def _value(rows: DataFrame, mapping: Mapping) -> Attempt:
    if mapping.value is not None:
        value = Expression.of(rows, "--value", mapping.value)
        return Attempt.of("value", value.content(), safe=value.safe)
    chosen = mapping.value_columns or [name for name in rows.columns if name != BROKEN]
    columns = [Expression.of(rows, "--value-json", quoted(name)).column for name in chosen]
    return Attempt.of("value", F.to_json(F.struct(*columns), _JSON).cast("binary"))


def _known(rows: DataFrame, mapping: Mapping) -> list[Attempt]:
    """Return the id, or the texts of the natural key's columns."""
    if mapping.id is not None:
        id_ = Expression.of(rows, "--id", mapping.id)
        return [Attempt.of("known", id_.text(), safe=id_.safe)]
    parts = (Expression.of(rows, "--natural-key", quoted(name)).text() for name in mapping.natural_key)
    return [Attempt.of(f"known{place}", part, safe=True) for place, part in enumerate(parts)]


def _joined(parts: list[Attempt]) -> Column:
    """Return an unambiguous text of the natural key; null if all its columns are null."""
    texts = [part.value for part in parts]
    # Each part follows its length, so that parts with other borders, or null, give another text.
    prefixed = (F.coalesce(F.concat(F.octet_length(text), F.lit(":"), text), F.lit("-")) for text in texts)
    return F.when(F.coalesce(*texts).isNotNull(), F.concat(*prefixed))


def _derived(job: str) -> Column:
    key = F.concat(F.col("known_id"), F.col("due_ms").cast("string"))
    # Spark counts the characters of a text to cut it, which takes longer than the hash; bytes are cut at once.
    digits = F.substring(F.sha2(key, 256).cast("binary"), 1, _HASH_DIGITS).cast("string")
    return F.concat(F.lit(f"{job}:"), digits)


def _users(rows: DataFrame, mapping: Mapping) -> list[Attempt]:
    """Return the values of the user's headers, in their order."""
    expressions = [Expression.of(rows, f"--header {name}", text) for name, text in mapping.headers]
    return [Attempt.of(f"header{place}", each.content(), safe=each.safe) for place, each in enumerate(expressions)]


def _headers(mapping: Mapping, fields: _Fields) -> Column:
    """Return the user's headers, then the contract's, in one array.

    Which headers there are is decided beforehand, because filtering nulls would double the cost of a request.
    """
    users = [_pair(name, each.value) for (name, _), each in zip(mapping.headers, fields.users, strict=True)]
    own = {names.ID: F.col("id"), names.TO: fields.to.value, names.AT: moment(F.col("due_ms"))}
    own |= {name: F.lit(value) for name, value in mapping.policies.items()}
    headers = [*users, *(_pair(name, value.cast("binary")) for name, value in own.items())]
    if mapping.to_partition is None:
        return F.array(*headers)
    place = fields.place.value
    placed = [*headers, _pair(names.TO_PARTITION, place.cast("binary"))]
    return F.when(place.isNull(), F.array(*headers)).otherwise(F.array(*placed))


def _pair(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.alias("value"))


def _reason(mapping: Mapping, limits: RowLimits, fields: _Fields) -> Column:
    """Return the first reason that applies, with the code of records.md#dead-letters where there is one."""
    to, id_, due, place = fields.to.value, F.col("id"), F.col("due_ms"), fields.place.value
    reasons = {
        "unreadable": F.col("broken"),
        "missing-due": ~fields.at.failed & fields.at.value.isNull(),
        "bad-due": due.isNull() | (due < 0),
        "too-far": due > min(limits.now_ms + limits.max_delay_ms, MAX_MS),
        "missing-destination": to.isNull() | (to == ""),
        "unknown-topic": ~_is_topic(to),
        # Whether there is a derived id is known without computing it, which takes as long as reading the row.
        "bad-id": id_.isNull() | _is_bad(id_) if mapping.id else F.col("known_id").isNull(),
        "bad-key": fields.key.failed,
        "bad-value": fields.value.failed,
        "bad-header": reduce(or_, (each.failed for each in fields.users), F.lit(False)),  # noqa: FBT003 - a column
        "bad-partition": fields.place.failed | (place.isNotNull() & ~place.rlike("^[0-9]{1,9}$")),
        "too-large": _size(mapping, fields) > limits.max_bytes,
    }
    # This makes the column nondeterministic, so that Spark computes it once, and not again in a filter by the reason.
    reasons["never"] = F.spark_partition_id() < 0
    return F.coalesce(*(F.when(applies, F.lit(code)) for code, applies in reasons.items()))


def _is_topic(to: Column) -> Column:
    """Return whether Kafka takes a text as the name of a topic, in a seventh of the time of a regular expression."""
    return called("org.apache.kafka.common.internals.Topic", "isValid", java_text(to), "Boolean")


def _is_bad(id_: Column) -> Column:
    return ~F.octet_length(id_).between(1, ID_BYTES) | ~F.is_valid_utf8(id_)


def _size(mapping: Mapping, fields: _Fields) -> Column:
    """Return an upper bound of the record's bytes."""
    size = F.lit(_OWN_BYTES + sum(len(name.encode()) + _HEADER_BYTES for name, _ in mapping.headers))
    for part in (fields.key, fields.value, *fields.users):
        size = size + F.coalesce(F.octet_length(part.value), F.lit(0))
    return size
