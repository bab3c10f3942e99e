"""Rows that cannot be sent: kept as they are, with the reason."""

import time

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

#: The column that tells it; records.md#dead-letters has its codes, and `requests` more.
REASON = "delay_reason"


def rejected(requests: DataFrame) -> DataFrame:
    """Return the rows that make no request: the columns that they came with, and REASON."""
    return requests.where("reason is not null").select("row.*", F.col("reason").alias(REASON))


def keep(requests: DataFrame, directory: str) -> str:
    """Write them as Parquet into a new directory of this run below `directory`; return its path.

    What earlier runs have left stays. What is written can be mended and be the input of another run.
    """
    path = f"{directory.rstrip('/')}/run={time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    rejected(requests).write.mode("append").parquet(path)
    return path
