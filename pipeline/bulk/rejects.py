"""Rejected rows, which are kept unchanged with the reason."""

import time

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

#: The column with the reason: a code of records.md#dead-letters or of `requests`.
REASON = "delay_reason"


def rejected(requests: DataFrame) -> DataFrame:
    """Return the rejected rows with their original columns and REASON."""
    return requests.where("reason is not null").select("row.*", F.col("reason").alias(REASON))


def keep(requests: DataFrame, directory: str) -> str:
    """Write the rejected rows as Parquet into a new directory below `directory`; return its path.

    The directories of earlier runs stay. Once corrected, the rows can be the input of another run.
    """
    path = f"{directory.rstrip('/')}/run={time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    rejected(requests).write.mode("append").parquet(path)
    return path
