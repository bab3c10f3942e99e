"""The ledger and the cold tier: Delta Lake tables, in which a run's rows and positions become visible together.

Each is one table, so a run is one commit. The commit's metadata has the offsets up to which each topic has been read,
so the next run continues there, and no record counts twice. Its transaction number is one more than the last commit's:
of two runs that began at the same commit, Delta Lake lets one commit. docs/decisions/0027 has the reasons.
"""

import copy
import dataclasses
import json
import time
import uuid
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.columns import PARTITIONS, STATISTICS, seen, stored, stored_schema
from pipeline.commit import Commit
from pipeline.errors import ConnectorMissing, LakeBusy, LakeIncomplete, LakeMismatch, OptionInvalid

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyspark.sql import Row, SparkSession
    from pyspark.sql.types import StructType

    from pipeline.kafka import Offsets

#: The name under which Delta Lake keeps the number of the last commit.
_APP = "punctual"
#: The note about the last roll-up (`reconcile.roll_up`).
ROLLED_UP = "rolled_up"
#: Commits of others, such as OPTIMIZE, that may follow the last one of the pipeline, before the whole log is read.
_FOLLOWING = 20


def source_of(app_id: str, cluster_id: str) -> str:
    """Return the text by which tables identify the installation that they come from."""
    return f"{app_id} on cluster {cluster_id}"


def require_tables(head: Commit, root: str, writer: str) -> None:
    """Raise OptionInvalid if there is no commit yet, which a job that only reads would take for an empty table.

    `writer` is the command that writes the first commit.
    """
    if not head.number:
        raise OptionInvalid(
            f"there is no {head.kind} in {root}. Check the directory, or run `python -m pipeline {writer}` first."
        )


def none(spark: "SparkSession", columns: "StructType") -> DataFrame:
    """Return an empty table of a schema, without the Python worker that createDataFrame would start."""
    return spark.range(0).select(
        *(F.lit(None).cast(each.dataType).alias(each.name, metadata=each.metadata) for each in columns)
    )


class Lake:
    """The Delta Lake table in one directory, as of one commit."""

    def __init__(self, spark: "SparkSession", root: str, kind: str, source: str, as_of_ms: int | None = None) -> None:
        """Open the table of `kind` in the directory `root` that comes from `source` (`source_of`).

        With `as_of_ms`, open it as it was at that time. Raises LakeMismatch if the directory holds another table,
        LakeIncomplete if the log of its commits is missing, OptionInvalid if the table is younger than `as_of_ms`.
        """
        self.spark, self.root = spark, root.rstrip("/") if ":" in root else str(Path(root).absolute())
        self._path = f"delta.`{self.root.replace('`', '``')}`"
        self._kind, self._source = kind, source
        self.head, self._version = Commit(0, kind, source), -1
        self._narrowed: DataFrame | None = None
        self._see(self._history(), as_of_ms)

    def read(
        self, kinds: "str | Sequence[str]", columns: "StructType", where: str | None = None, *, whole: bool = False
    ) -> DataFrame:
        """Return the rows of one or several kinds as of the commit that this run has read or made last.

        `where` is an SQL condition on columns of the table, by which Delta Lake leaves out files. With `whole`, rows of
        the whole table are returned although it is `narrowed`.
        """
        if not self.head.number:
            return none(self.spark, columns)
        rows = self.rows(kinds, whole=whole)
        return seen(rows if where is None else rows.where(where), columns)

    def rows(self, kinds: "str | Sequence[str]", *, whole: bool = False) -> DataFrame:
        """Return the rows of one or several kinds, with the columns of the table (`columns.LAYOUTS`)."""
        rows = self._table() if whole or self._narrowed is None else self._narrowed
        return rows.where(F.col("kind").isin(kinds if isinstance(kinds, str) else [*kinds]))

    def narrowed(self, rows: DataFrame) -> "Lake":
        """Return this table as if it had only these rows, which have its columns."""
        narrow = copy.copy(self)
        narrow._narrowed = rows  # noqa: SLF001 - of this class
        return narrow

    def has(self, *names: str) -> bool:
        """Return whether the table has rows of one of these kinds."""
        return bool(self.head.number) and not self.rows(names, whole=True).isEmpty()

    def _table(self) -> DataFrame:
        return self.spark.read.format("delta").option("versionAsOf", self._version).load(self.root)

    def _history(self, after: int | None = None) -> "list[Row]":
        """Return the last commits, down to one of the pipeline and the one after `after`; none if there is no table."""
        try:
            for most in (" LIMIT 1", f" LIMIT {_FOLLOWING}", ""):
                rows: list[Row] = self.spark.sql(f"DESCRIBE HISTORY {self._path}{most}").collect()
                is_whole = after is None or rows[-1]["version"] <= after + 1
                if is_whole and any(Commit.of(row["userMetadata"]) for row in rows):
                    break
        except AnalysisException as error:
            condition = error.getCondition() or ""
            if condition == "PARSE_SYNTAX_ERROR":  # it is Delta Lake that knows the statement
                raise ConnectorMissing(
                    "Spark has no Delta Lake. Give spark-submit --packages io.delta:delta-spark_2.13:4.0.0 and set "
                    "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension."
                ) from error
            if "DELTA_" not in condition:
                raise
            return []
        return rows

    def _see(self, rows: "list[Row]", as_of_ms: int | None = None) -> None:
        """Take the newest commit of the pipeline, up to a time, as the head."""
        if as_of_ms is not None:
            rows = self._until(as_of_ms)
        if not rows:
            return
        head = next((commit for row in rows if (commit := Commit.of(row["userMetadata"]))), None)
        if head is None:
            raise LakeMismatch(f"{self.root} is a Delta table of another program. Use another directory.")
        head.require(self._kind, self._source, self.root)
        self.head, self._version = head, rows[0]["version"]

    def _until(self, as_of_ms: int) -> "list[Row]":
        when = datetime.fromtimestamp(as_of_ms / 1000, UTC)
        rows = self.spark.sql(f"DESCRIBE HISTORY {self._path}").withColumn("ms", F.unix_millis("timestamp"))
        versions: list[Row] = rows.where(F.col("ms") <= as_of_ms).orderBy(F.desc("version")).collect()
        if not versions:
            raise OptionInvalid(f"{self.root} has no version of {when:%Y-%m-%dT%H:%M:%SZ}. Its log begins later.")
        return versions

    def commit(
        self,
        added: "Mapping[str, DataFrame] | None" = None,
        positions: "Mapping[str, Offsets] | None" = None,
        notes: "Mapping[str, Any] | None" = None,
        replaced: "Collection[str]" = (),
        copied: DataFrame | None = None,
    ) -> Commit:
        """Commit new rows, positions and notes; return the commit.

        Args:
            added: rows of each kind. Columns `kind` and `day` take precedence.
            positions: the topics' new positions; other topics keep theirs.
            notes: new notes; other notes keep their values.
            replaced: kinds of which `added` and `copied` have all rows.
            copied: further rows, with the columns of the table.

        Raises LakeBusy if another run has committed, since `head`, what contradicts this commit: then no change counts.
        """
        if not self.head.number:
            self._create()
        parts = [stored(rows, self._kind, name) for name, rows in (added or {}).items()]
        if copied is not None:
            parts.append(copied)
        rows = reduce(DataFrame.unionAll, parts) if parts else none(self.spark, stored_schema(self._kind))
        while True:
            mine = dataclasses.replace(
                self.head,
                number=self.head.number + 1,
                at_ms=time.time_ns() // 1_000_000 if positions else self.head.at_ms,
                run=uuid.uuid4().hex,
                positions=self.head.positions | dict(positions or {}),
                notes=self.head.notes | dict(notes or {}),
            )
            self._write(rows, mine, replaced)
            if self._is_next(mine, {*(notes or {})}, moves=bool(positions), replaces=bool(replaced)):
                return self.head

    def _create(self) -> None:
        """Create the table, empty: from then on its log tells it from what a killed run has left."""
        if rows := self._history():
            self._see(rows)
            if self.head.positions:
                raise self._busy()
            return
        self._require_new()
        first = Commit(1, self._kind, self._source, time.time_ns() // 1_000_000, run=uuid.uuid4().hex)
        self._write(none(self.spark, stored_schema(self._kind)), first, ())
        self._see(self._history())

    def _require_new(self) -> None:
        """Raise LakeIncomplete if there are rows without a log of commits."""
        try:
            files = self.spark.read.format("binaryFile").load(f"{self.root}/kind=*/day=*/*.parquet").inputFiles()
        except AnalysisException:
            return
        raise LakeIncomplete(
            f"{self.root} has files, {files[0]} among them, but _delta_log/ is missing, which lists the valid files. "
            f"Restore it, or start a new directory with the records that Kafka still has."
        )

    def _write(self, rows: DataFrame, commit: Commit, replaced: "Collection[str]") -> None:
        number = F.lit(commit.number).cast("long").alias("commit", metadata=rows.schema["commit"].metadata)
        rows = rows.select(*(number if name == "commit" else name for name in rows.columns))
        writer = rows.write.format("delta").partitionBy(*PARTITIONS).mode("overwrite" if replaced else "append")
        if replaced:
            writer = writer.option("replaceWhere", "kind in ('{}')".format("', '".join(sorted(replaced))))
        if commit.number == 1:
            columns = ",".join(name for name in STATISTICS if name in rows.columns)
            writer = writer.option("delta.dataSkippingStatsColumns", columns)
        writer = writer.option("mergeSchema", "true").option("userMetadata", json.dumps(dataclasses.asdict(commit)))
        try:
            writer.option("txnAppId", _APP).option("txnVersion", commit.number).save(self.root)
        except (Py4JJavaError, PySparkException) as error:
            if "io.delta.exceptions." not in str(error):
                raise

    def _is_next(self, mine: Commit, notes: set[str], *, moves: bool, replaces: bool) -> bool:
        """Return whether this commit is the next one, and make it the head; otherwise take the newest commit.

        Delta Lake leaves out a write with a transaction number that it has, and says nothing. Raises LakeBusy if the
        commits since the head contradict this one.
        """
        before, version, rows = self.head, self._version, self._history(self._version)
        at = next((row["version"] for row in rows if (Commit.of(row["userMetadata"]) or before).run == mine.run), None)
        if at is not None:
            self.head, self._version = mine, at
            return True
        self._see(rows)
        changed = {name for name in notes if self.head.notes.get(name) != before.notes.get(name)}
        foreign = replaces and any(row["version"] > version and row["userMetadata"] is None for row in rows)
        if changed or foreign or ((moves or replaces) and self.head.positions != before.positions):
            raise self._busy()
        return False

    def merge_files(self) -> None:
        """Merge the small files of each kind and day."""
        where = "kind <> 'account' and kind not like 'open-%'"  # a simultaneous roll-up would replace these files
        self.spark.sql(f"OPTIMIZE {self._path} WHERE {where}").collect()

    def vacuum(self, hours: float = 7 * 24) -> None:
        """Delete files that no commit of the last `hours` has listed, such as those of killed runs."""
        self.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        self.spark.sql(f"VACUUM {self._path} RETAIN {hours} HOURS").collect()

    def erase(self, ids: "Collection[str]", keys: "Collection[bytes]") -> int:
        """Delete the rows with one of these ids or keys; return their number. `vacuum` deletes the files that had them.

        The values are in a view, because the log has the text of the statement. Raises LakeBusy.
        """
        rows = [(each, None) for each in ids] + [(None, bytearray(each)) for each in keys]
        self.spark.createDataFrame(rows, "id string, key binary").createOrReplaceTempView("erased")
        try:
            merge = f"MERGE INTO {self._path} t USING erased e ON t.id = e.id or t.key = e.key WHEN MATCHED THEN DELETE"
            erased = self.spark.sql(merge).collect()[0]["num_deleted_rows"]
        except (Py4JJavaError, PySparkException) as error:
            if "io.delta.exceptions." not in str(error):
                raise
            raise self._busy() from error
        finally:
            self.spark.catalog.dropTempView("erased")
        if erased:
            # A roll-up has counted these rows. The commit also keeps the pipeline's last one near the log's end.
            self.commit(notes={ROLLED_UP: None})
        return int(erased)

    def _busy(self) -> LakeBusy:
        return LakeBusy(f"another run writes to {self.root}. Wait until it ends, then run this command again.")
