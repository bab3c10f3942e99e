"""The home partitions of a column of ids, as in `punctual.contract.home`, and a column that is read at a rate limit."""

import time
from collections.abc import Callable, Iterator
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.catalyst import called

if TYPE_CHECKING:
    import pandas as pd

_POSITIVE = 0x7FFFFFFF


def home(ids: Column, inputs: tuple[str, ...], partitions: int) -> Column:
    """Return the home partition of each id. Requests that are sent to it spare the worker a forward.

    The hash comes from Kafka's Java client, because computing it in Python would take as long as sending.
    """
    hashed = called("org.apache.kafka.common.utils.Utils", "murmur2", ids.cast("binary"))
    by_hash = hashed.bitwiseAND(F.lit(_POSITIVE)) % partitions
    shape = rf"^(?:{'|'.join(each.replace('.', '[.]') for each in inputs)})-([0-9]+)-[0-9]+\z"
    named = F.regexp_extract(ids, shape, 1).try_cast("int")
    possible = reduce(or_, (ids.startswith(f"{each}-") for each in inputs))  # a regular expression is slow
    return F.when(possible & ids.rlike(shape) & (named < partitions), named).otherwise(by_hash)


def paced(values: Column, per_second: float) -> Column:
    """Return int values unchanged, at most `per_second` of them in each task."""
    from pyspark.sql.pandas.functions import pandas_udf  # noqa: PLC0415 - pandas takes 0.4 s to import

    udf: Any = pandas_udf
    return udf(_at_pace(per_second), "int")(values)  # type: ignore[no-any-return, unused-ignore]


def _at_pace(per_second: float) -> "Callable[[Iterator[pd.Series]], Iterator[pd.Series]]":
    import pandas as pd  # noqa: PLC0415 - see `paced`

    def at_pace(chunks: "Iterator[pd.Series]") -> "Iterator[pd.Series]":
        due = time.monotonic()
        for chunk in chunks:
            yield chunk
            now = time.monotonic()
            due = max(due + len(chunk) / per_second, now)  # a slow chunk is not followed by a burst
            time.sleep(due - now)

    at_pace.__annotations__ = {"chunks": Iterator[pd.Series], "return": Iterator[pd.Series]}
    return at_pace
