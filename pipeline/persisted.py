"""Keeps a table that is computed once and read several times."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame


@contextmanager
def persisted(table: DataFrame) -> Iterator[DataFrame]:
    """Keep a table for a block, in memory as far as it fits and otherwise on disk."""
    table.persist()
    try:
        yield table
    finally:
        table.unpersist()
