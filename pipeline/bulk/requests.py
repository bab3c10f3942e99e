"""Turns rows into delay requests: each valid, or with the reason for its rejection."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.bulk.due import MAX_MS, due_ms
from pipeline.bulk.expressions import Expression, attempt, quoted
from pipeline.bulk.inputs import BROKEN
from pipeline.bulk.mapping import Mapping, RowLimits
from pipeline.headers import moment
from punctual.contract import headers as names
from punctual.contract.request import ID_BYTES, TOPIC_NAME

_TOPIC = f"^{TOPIC_NAME.pattern}$"
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
    tried = {
        "at": attempt(at.column, safe=at.safe),
        "to": attempt(to.text(), safe=to.safe),
        "key": attempt(key.content(), safe=key.safe),
        "value": _value(rows, mapping),
        "known": _known(rows, mapping),
        "place": attempt(place.text(), safe=place.safe),
        "users": _users(rows, mapping),
    }
    broken = F.col(BROKEN).isNotNull() if BROKEN in rows.columns else F.lit(False)  # noqa: FBT003 - a column
    values = rows.select(
        F.struct("*").alias("row"), broken.alias("broken"), *(each.alias(name) for name, each in tried.items())
    )
    due = values.withColumn("due_ms", due_ms(F.col("at.value"), at.kind, at.option))
    id_ = F.col("known.value")
    named = due.withColumn("id", id_ if mapping.id else _derived(mapping.job))
    return named.select(
        "row",
        "id",
        F.when(id_.isNotNull(), F.xxhash64(id_) if mapping.id else F.xxhash64(id_, "due_ms")).alias("hash"),
        F.col("to.value").alias("to"),
        "due_ms",
        F.col("key.value").alias("key"),
        F.col("value.value").alias("value"),
        _headers(mapping).alias("headers"),
        _reason(mapping, limits).alias("reason"),
    )


def _value(rows: DataFrame, mapping: Mapping) -> Column:
    if mapping.value is not None:
        value = Expression.of(rows, "--value", mapping.value)
        return attempt(value.content(), safe=value.safe)
    chosen = mapping.value_columns or [name for name in rows.columns if name != BROKEN]
    columns = [Expression.of(rows, "--value-json", quoted(name)).column for name in chosen]
    return attempt(F.to_json(F.struct(*columns), _JSON).cast("binary"))


def _known(rows: DataFrame, mapping: Mapping) -> Column:
    """Return the id, or an unambiguous text of the natural key; null if all columns of the key are null."""
    if mapping.id is not None:
        id_ = Expression.of(rows, "--id", mapping.id)
        return attempt(id_.text(), safe=id_.safe)
    parts = [Expression.of(rows, "--natural-key", quoted(name)).text() for name in mapping.natural_key]
    # Each part follows its length, so that parts with other borders, or null, give another text.
    prefixed = (F.coalesce(F.concat(F.octet_length(part), F.lit(":"), part), F.lit("-")) for part in parts)
    return attempt(F.when(F.coalesce(*parts).isNotNull(), F.concat(*prefixed)), safe=True)


def _derived(job: str) -> Column:
    key = F.concat(F.col("known.value"), F.col("due_ms").cast("string"))
    return F.concat(F.lit(f"{job}:"), F.substring(F.sha2(key, 256), 1, _HASH_DIGITS))


def _users(rows: DataFrame, mapping: Mapping) -> Column:
    """Return the values of the user's headers, each a field named after its position."""
    given = [Expression.of(rows, f"--header {name}", text) for name, text in mapping.headers]
    values = (each.content().alias(f"at{place}") for place, each in enumerate(given))
    return attempt(F.struct(*values, F.lit(0).alias("end")), safe=all(each.safe for each in given))


def _headers(mapping: Mapping) -> Column:
    """Return the user's headers, then the contract's, in one array.

    Which headers there are is decided beforehand, because filtering nulls would double the cost of a request.
    """
    users = [_pair(name, F.col(f"users.value.at{place}")) for place, (name, _) in enumerate(mapping.headers)]
    own = {names.ID: F.col("id"), names.TO: F.col("to.value"), names.AT: moment(F.col("due_ms"))}
    own |= {name: F.lit(value) for name, value in mapping.policies.items()}
    headers = [*users, *(_pair(name, value.cast("binary")) for name, value in own.items())]
    if mapping.to_partition is None:
        return F.array(*headers)
    place = F.col("place.value")
    placed = [*headers, _pair(names.TO_PARTITION, place.cast("binary"))]
    return F.when(place.isNull(), F.array(*headers)).otherwise(F.array(*placed))


def _pair(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.alias("value"))


def _reason(mapping: Mapping, limits: RowLimits) -> Column:
    """Return the first reason that applies, with the code of records.md#dead-letters where there is one."""
    to, id_, due, place = F.col("to.value"), F.col("id"), F.col("due_ms"), F.col("place.value")
    reasons = {
        "unreadable": F.col("broken"),
        "missing-due": F.col("at").isNotNull() & F.col("at.value").isNull(),
        "bad-due": due.isNull() | (due < 0),
        "too-far": due > min(limits.now_ms + limits.max_delay_ms, MAX_MS),
        "missing-destination": to.isNull() | (to == ""),
        "unknown-topic": ~to.rlike(_TOPIC),
        # Whether there is a derived id is known without computing it, which takes as long as reading the row.
        "bad-id": id_.isNull() | _is_bad(id_) if mapping.id else F.col("known.value").isNull(),
        "bad-key": F.col("key").isNull(),
        "bad-value": F.col("value").isNull(),
        "bad-header": F.col("users").isNull(),
        "bad-partition": F.col("place").isNull() | (place.isNotNull() & ~place.rlike("^[0-9]{1,9}$")),
        "too-large": _size(mapping) > limits.max_bytes,
    }
    # This makes the column nondeterministic, so that Spark computes it once, and not again in a filter by the reason.
    reasons["never"] = F.spark_partition_id() < 0
    return F.coalesce(*(F.when(applies, F.lit(code)) for code, applies in reasons.items()))


def _is_bad(id_: Column) -> Column:
    return ~F.octet_length(id_).between(1, ID_BYTES) | ~F.is_valid_utf8(id_)


def _size(mapping: Mapping) -> Column:
    """Return an upper bound of the record's bytes."""
    users = [F.col(f"users.value.at{place}") for place in range(len(mapping.headers))]
    size = F.lit(_OWN_BYTES + sum(len(name.encode()) + _HEADER_BYTES for name, _ in mapping.headers))
    for part in (F.col("key.value"), F.col("value.value"), *users):
        size = size + F.coalesce(F.octet_length(part), F.lit(0))
    return size
