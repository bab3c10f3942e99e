"""Parquet tables whose changes become visible together, with the positions of the topics that they were read from.

A commit is one small file that lists the directories of each table. No commit lists the files of a killed run, so the
next run continues at the positions of the last commit, and no record counts twice.
"""

import dataclasses
import json
import re
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from pipeline.errors import LakeBusy, LakeIncomplete, LakeMismatch, OptionInvalid
from pipeline.files import Files, LocalFiles

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.kafka import Offsets

_COMMITS = "commits"
_FORMAT = 1
#: The names of directories that `Lake.write` creates: the number of the next commit, and a random suffix.
_DIRECTORY, _FIRST = re.compile(r"\d{12}-[0-9a-f]{12}$"), f"{1:012d}-"
#: Number of commits whose files are kept, because another run may still be reading them.
_KEPT = 20


_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "int": IntegerType(),
    "long": LongType(),
    "binary": BinaryType(),
    "headers": ArrayType(_HEADER),
}


def schema(**columns: str) -> StructType:
    """Return the schema of a table from its columns' types: string, int, long, binary, or headers (key, value)."""
    return StructType([StructField(name, _TYPES[kind]) for name, kind in columns.items()])


def none(spark: "SparkSession", columns: StructType) -> "DataFrame":
    """Return an empty table of a schema, without the Python worker that createDataFrame would start."""
    return spark.range(0).select(*(F.lit(None).cast(each.dataType).alias(each.name) for each in columns))


@dataclass(frozen=True)
class Commit:
    """One version of the tables.

    Attributes:
        number: 1 for the first commit; 0 if there is none yet.
        kind: which tables these are, such as `ledger`.
        source: the installation that they come from (`source_of`).
        at_ms: the time of the commit.
        format: the version of this format.
        positions: the offsets up to which each topic has been read.
        tables: the directories of each table.
        notes: JSON values that the jobs keep for their next run.
    """

    number: int
    kind: str
    source: str
    at_ms: int = 0
    format: int = _FORMAT
    positions: "dict[str, Offsets]" = field(default_factory=dict)
    tables: dict[str, list[str]] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)


def source_of(app_id: str, cluster_id: str) -> str:
    """Return the text by which tables identify the installation that they come from."""
    return f"{app_id} on cluster {cluster_id}"


def last_commit(files: "Files | LocalFiles", kind: str, source: str) -> Commit:
    """Return the last commit below a directory; one with number 0 if there is none yet.

    Raises LakeMismatch if the directory holds other tables than those of `kind` from `source`, LakeIncomplete if its
    commits are missing.
    """
    names = [name for name in files.names(_COMMITS) if name.endswith(".json")]
    if not names:
        _assure_new(files)
        return Commit(0, kind, source)
    try:
        head = Commit(**json.loads(files.read(f"{_COMMITS}/{names[-1]}")))
    except (ValueError, TypeError) as error:
        raise LakeMismatch(
            f"{files.root}/{_COMMITS}/{names[-1]} is not a commit of the pipeline's tables. Use another directory."
        ) from error
    if (head.kind, head.source, head.format) != (kind, source, _FORMAT):
        raise LakeMismatch(
            f"{files.root} holds a {head.kind} of {head.source} (format {head.format}), not a {kind} of {source}. "
            f"Use another directory, or the DELAY_APP_ID and KAFKA_BOOTSTRAP_SERVERS of its installation."
        )
    positions = {topic: {int(number): at for number, at in there.items()} for topic, there in head.positions.items()}
    return dataclasses.replace(head, positions=positions)


def require_tables(head: Commit, root: str, writer: str) -> None:
    """Raise OptionInvalid if there is no commit yet, which a job that only reads would take for empty tables.

    `writer` is the command that writes the first commit.
    """
    if not head.number:
        raise OptionInvalid(
            f"there is no {head.kind} in {root}. Check the directory, or run `python -m pipeline {writer}` first."
        )


def _assure_new(files: "Files | LocalFiles") -> None:
    """Raise LakeIncomplete if there were commits before: a killed first run leaves only directories of number 1."""
    for table in files.names(""):
        later = next(
            (name for name in files.names(table) if _DIRECTORY.match(name) and not name.startswith(_FIRST)), None
        )
        if later is not None:
            raise LakeIncomplete(
                f"{files.root} has tables, {table}/{later} among them, but {_COMMITS}/ is missing, which lists the "
                f"valid files. Restore it, or start a new directory with the records that Kafka still has."
            )


class Lake:
    """The tables below one directory. At most one run at a time writes them; any number of runs can read."""

    def __init__(self, spark: "SparkSession", root: str, kind: str, source: str) -> None:
        """Open the tables of `kind` (`ledger`, `cold tier`) below `root` that come from `source` (`source_of`).

        Raises LakeMismatch if the directory holds other tables, LakeIncomplete if its commits are missing.
        """
        self.spark, self.files = spark, Files(spark, root)
        self.head = last_commit(self.files, kind, source)

    def read(self, table: str, schema: "StructType") -> "DataFrame":
        """Return a table as of the last commit that this run has read or made; an empty table if it has no files."""
        return self.written(self.head.tables.get(table, ()), schema)

    def written(self, directories: "Collection[str]", schema: "StructType") -> "DataFrame":
        """Return the rows in directories, named as by `write` or `head.tables`."""
        paths = [f"{self.files.root}/{name}" for name in directories]
        return self.spark.read.schema(schema).parquet(*paths) if paths else none(self.spark, schema)

    def write(self, table: str, rows: "DataFrame", by: str | None = None) -> list[str]:
        """Write rows into new directories, which belong to no table until a commit lists them.

        Return the directories: one, or with the column `by` one for each value, named `by=value`.
        """
        name = f"{table}/{self.head.number + 1:012d}-{uuid.uuid4().hex[:12]}"
        writer = rows.write if by is None else rows.write.partitionBy(by)
        writer.parquet(f"{self.files.root}/{name}")
        return [name] if by is None else [f"{name}/{each}" for each in self.files.names(name) if "=" in each]

    def commit(
        self,
        added: "Mapping[str, DataFrame | list[str]]",
        positions: "Mapping[str, Offsets] | None" = None,
        notes: "Mapping[str, Any] | None" = None,
        replaced: "Collection[str]" = (),
    ) -> Commit:
        """Commit new rows, positions and notes; return the commit.

        Args:
            added: rows to write to each table, or the directories that `write` returned.
            positions: the topics' new positions; other topics keep theirs.
            notes: new notes; other notes keep their values.
            replaced: tables, or single directories of `head.tables`, that the commit removes.

        Raises LakeBusy if another run has committed since `head`: then none of this run's changes count.
        """
        number = self.head.number + 1
        tables = {
            name: [part for part in there if part not in replaced]
            for name, there in self.head.tables.items()
            if name not in replaced
        }
        for table, rows in added.items():
            tables.setdefault(table, []).extend(rows if isinstance(rows, list) else self.write(table, rows))
        commit = dataclasses.replace(
            self.head,
            number=number,
            at_ms=time.time_ns() // 1_000_000,
            positions=self.head.positions | dict(positions or {}),
            tables=tables,
            notes=self.head.notes | dict(notes or {}),
        )
        if not self.files.write_new(f"{_COMMITS}/{number:012d}.json", json.dumps(dataclasses.asdict(commit), indent=1)):
            raise LakeBusy(f"another run writes to {self.files.root}. Wait until it ends, then run this command again.")
        self.files.delete(f"{_COMMITS}/{number - _KEPT:012d}.json")
        self.head = commit
        return commit

    def clean(self) -> int:
        """Delete directories that the last commits do not list, such as those of killed runs; return their number."""
        kept = [name for name in self.files.names(_COMMITS) if name.endswith(".json")]
        tables = [json.loads(self.files.read(f"{_COMMITS}/{name}"))["tables"] for name in kept]
        live = {"/".join(name.split("/")[:2]) for each in tables for there in each.values() for name in there}
        gone = 0
        for table in {name.split("/")[0] for name in live}:
            for name in self.files.names(table):
                old = int(name.split("-")[0]) <= self.head.number
                if old and f"{table}/{name}" not in live:
                    self.files.delete(f"{table}/{name}")
                    gone += 1
        return gone
