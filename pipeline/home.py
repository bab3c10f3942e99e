"""Where ids live: the home partition of many at once."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
from pyspark.sql import Column
from pyspark.sql.pandas.functions import pandas_udf

from app.contract.home import home_partition


def home(ids: Column, inputs: tuple[str, ...], partitions: int, per_second: float | None = None) -> Column:
    """Give the home partition of each of `ids`, not more than so many a second in each task.

    Records that are sent there spare the worker a forward. The pace is that of whoever takes the rows, as they come.
    """
    made: Any = pandas_udf
    return made(_places(inputs, partitions, per_second), "int")(ids)  # type: ignore[no-any-return]


def _places(
    inputs: tuple[str, ...], partitions: int, per_second: float | None
) -> Callable[[Iterator[pd.Series]], Iterator[pd.Series]]:
    def places(chunks: Iterator[pd.Series]) -> Iterator[pd.Series]:
        began, given = time.monotonic(), 0
        for chunk in chunks:
            yield pd.Series([home_partition(each, inputs, partitions) for each in chunk], dtype="int32")
            given += len(chunk)
            if per_second is not None:
                time.sleep(max(0.0, began + given / per_second - time.monotonic()))

    places.__annotations__ = {"chunks": Iterator[pd.Series], "return": Iterator[pd.Series]}
    return places
