"""The Delta Lake tables: concurrent writers, erasures, earlier versions, and the migration."""

import json
import os
import re
import threading
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from pipeline.cold.state import ColdState
from pipeline.columns import LAYOUTS, schema, stored_schema
from pipeline.context import JobContext
from pipeline.errors import LakeBusy, LakeMismatch, OptionInvalid
from pipeline.jobs import erase, park, promote, vacuum
from pipeline.jobs.reconcile import opened
from pipeline.lake import Lake
from pipeline.ledger import KIND, lives
from pipeline.ledger.intake import take_in
from pipeline.ledger.tables import ACCEPTED
from tests.pipeline.conftest import Produce
from tests.pipeline.test_park_promote import FakeWorker
from tests.pipeline.topic_writer import HOUR_MS, NOW_MS, TopicWriter

#: Commits of each of two writers: COMMITS=150 makes 300 in all.
_COMMITS = int(os.environ.get("COMMITS", "4"))
ROW = schema(id="string", source="string", at_ms="long", due_ms="long")


def run(job: ModuleType, context: JobContext, *arguments: str) -> None:
    parser = ArgumentParser()
    job.add_options(parser)
    job.run(context, parser.parse_args(arguments, Namespace(app_id=context.app_id)))


def test_of_two_concurrent_writers_each_learns_whether_its_commit_counts(spark: SparkSession, tmp_path: Path) -> None:
    """The row of a successful commit is in the table; the row of a commit that fails with `LakeBusy` is not."""
    root, committed, refused = str(tmp_path / "ledger"), set[str](), set[str]()
    Lake(spark, root, KIND, "p").commit()

    def write(writer: int) -> None:
        for number in range(_COMMITS):
            id_ = f"{writer}-{number}"
            row = spark.sql(f"SELECT '{id_}' id, 't-0-{number}' source, {NOW_MS}L at_ms, {NOW_MS}L due_ms")
            try:
                Lake(spark, root, KIND, "p").commit({"accepted": row}, {"t": {0: writer * 1_000 + number + 1}})
            except LakeBusy:
                refused.add(id_)
            else:
                committed.add(id_)

    threads = [threading.Thread(target=write, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    lake = Lake(spark, root, KIND, "p")
    ids = Counter(row.id for row in lake.read("accepted", ROW).collect())
    assert ids == dict.fromkeys(committed, 1)
    assert len(committed | refused) == 2 * _COMMITS
    assert lake.head.number == 2 + len(committed), "each commit has its own number"


def test_a_promotion_and_a_concurrent_park_both_count(context: JobContext, produce: Produce, tmp_path: Path) -> None:
    worker, cold = FakeWorker(context, produce), str(tmp_path)
    worker.park("a", NOW_MS)
    park.park(context, context.lake(cold, park.KIND))
    lake_before_park = context.lake(cold, park.KIND)
    worker.park("b", NOW_MS)
    park.park(context, context.lake(cold, park.KIND))
    lake_before_park.commit(notes={"promoted": {"until_ms": 1, "again_ms": 1, "upto": {}}})

    lake = context.lake(cold, park.KIND)
    assert lake.head.notes["promoted"]["until_ms"] == 1
    assert {row.id for row in ColdState.of(lake).live().collect()} == {"a", "b"}
    context.lake(cold, park.KIND).commit(notes={"promoted": {"until_ms": 2, "again_ms": 1, "upto": {}}})
    with pytest.raises(LakeBusy):
        lake.commit(notes={"promoted": {"until_ms": 3, "again_ms": 1, "upto": {}}})


def test_a_commit_that_reads_no_topic_makes_no_table_newer(spark: SparkSession, tmp_path: Path) -> None:
    """Records that came after the last reading are no strangers because of a compaction."""
    lake = Lake(spark, str(tmp_path), KIND, "p")
    lake.commit(positions={"p-events": {0: 5}})
    read_ms = lake.head.at_ms
    lake.commit(notes={"runs": 0})
    assert lake.head.at_ms == read_ms
    lake.commit(positions={"p-events": {0: 6}})
    assert lake.head.at_ms > read_ms


def bytes_below(directory: Path) -> bytes:
    """Return the bytes of all files below a directory, followed by the decompressed rows of Parquet files."""
    content = bytearray()
    for file in (path for path in directory.rglob("*") if path.is_file()):
        content += file.read_bytes()
        if file.suffix == ".parquet":
            content += repr(pq.ParquetFile(file).read().to_pylist()).encode()
    return bytes(content)


def test_an_erasure_and_a_vacuum_leave_no_byte_of_a_message(
    context: JobContext, produce: Produce, tmp_path: Path
) -> None:
    topics, worker = TopicWriter(context, produce), FakeWorker(context, produce)
    ledger, cold, rejects = (tmp_path / name for name in ("ledger", "cold", "rejects"))
    for id_, key, value in (
        ("secret-id", b"x", b"v"),
        ("b", b"secret-key", b"secret-value"),
        ("c", b"kept-key", b"kept"),
    ):
        topics.life(topics.request(id_, key=key, value=value), id_)
        worker.park(id_, NOW_MS + 10 * HOUR_MS, key=key, value=value)
    take_in(context, context.lake(str(ledger), KIND))
    park.park(context, context.lake(str(cold), park.KIND))
    promote.promote(context, str(cold), HOUR_MS)
    (rejects / "run=1").mkdir(parents=True)
    rows = [{"customer": "secret-key", "text": "secret-value"}, {"customer": "kept-key", "text": "kept"}]
    pq.write_table(pa.Table.from_pylist(rows), rejects / "run=1" / "part.parquet")
    paths = [str(path) for path in (ledger, cold, rejects)]
    assert b"secret-value" in bytes_below(ledger)
    assert b"secret-value" in bytes_below(cold)

    run(erase, context, *paths, "--id", "secret-id", "--key", "secret-key")
    run(vacuum, context, *paths[:2], "--older-than", "PT0S")

    for directory in (ledger, cold, rejects):
        content = bytes_below(directory)
        assert b"secret" not in content, directory
        assert b"kept-key" in content, directory
    assert context.summary.counts["erased"] == 4 + 3 + 1
    take_in(context, context.lake(str(ledger), KIND))
    assert context.lake(str(ledger), KIND).head.positions, "the next run continues at the positions of the last run"


def test_erase_needs_an_id_or_a_key(context: JobContext, tmp_path: Path) -> None:
    with pytest.raises(OptionInvalid, match=r"Give --id or --key\."):
        run(erase, context, str(tmp_path))


def test_a_ledger_can_be_read_as_of_a_time(context: JobContext, produce: Produce, tmp_path: Path) -> None:
    topics, root = TopicWriter(context, produce), str(tmp_path)
    lake = context.lake(root, KIND)
    topics.life(topics.request())
    take_in(context, lake)
    between_ms = time.time_ns() // 1_000_000
    time.sleep(1.1)  # Some file systems store the time of a version in seconds.
    topics.life(topics.request())
    take_in(context, lake)

    assert lives(lake).count() == 2
    assert lives(context.lake(root, KIND, between_ms)).count() == 1
    options = Namespace(ledger=root, as_is=False, as_of="1970-01-02")
    with pytest.raises(OptionInvalid, match="has no version of 1970-01-02T00:00:00Z"):
        opened(context, options)


def test_a_column_that_an_earlier_version_did_not_have_is_added(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = spark.sql(f"SELECT 'a' id, 't-0-1' source, {NOW_MS}L at_ms, {NOW_MS}L due_ms")
    with monkeypatch.context() as patch:
        earlier_layout = {name: column for name, column in LAYOUTS["ledger"].items() if name != "late_ms"}
        patch.setitem(LAYOUTS, "ledger", earlier_layout)
        Lake(spark, str(tmp_path), KIND, "p").commit({"accepted": row})
    columns = schema(id="string", late_ms="long")
    lake = Lake(spark, str(tmp_path), KIND, "p")
    assert [tuple(record) for record in lake.read("accepted", columns).collect()] == [("a", None)]
    lake.commit({"accepted": row.selectExpr("'b' id", "source", "at_ms", "due_ms", "7L late_ms")})
    assert {tuple(record) for record in lake.read("accepted", columns).collect()} == {("a", None), ("b", 7)}


@pytest.mark.parametrize("kind", LAYOUTS)
def test_each_column_has_a_comment(kind: str) -> None:
    assert all(column.metadata["comment"] for column in stored_schema(kind))


@pytest.mark.parametrize("kind", LAYOUTS)
def test_each_column_is_documented(kind: str) -> None:
    page = (Path(__file__).parents[2] / "docs/reference/tables.md").read_text("utf-8")
    text = page.lower().partition(f"## {kind}\n")[2].partition("\n## ")[0]
    documented = re.findall(r"^\| `(\w+)` \| [^|]+ \| (.+) \|$", text, re.MULTILINE)
    shared = LAYOUTS["ledger"].keys() & LAYOUTS["cold tier"].keys() if kind == "cold tier" else ()
    assert documented == [
        (name, description.lower()) for name, (_, description) in LAYOUTS[kind].items() if name not in shared
    ]


def old_tables(root: Path, kind: str, source: str, rows: dict[str, list[dict[str, object]]], **commit: object) -> None:
    """Write tables in the format that Punctual used before Delta Lake."""
    from pipeline.migration import _TABLES  # noqa: PLC0415

    for name, table_rows in rows.items():
        column_types = to_arrow_schema(_TABLES[name])
        (root / name / "1").mkdir(parents=True)
        complete_rows = [{column: row.get(column) for column in column_types.names} for row in table_rows]
        pq.write_table(pa.Table.from_pylist(complete_rows, column_types), root / name / "1" / "part.parquet")
    (root / "commits").mkdir(exist_ok=True)
    content = {"number": 7, "kind": kind, "source": source, "at_ms": 1, "format": 1, "notes": {}, **commit}
    content["tables"] = {name: [f"{name}/1"] for name in rows}
    (root / "commits" / "000000000007.json").write_text(json.dumps(content), "utf-8")


def test_tables_of_an_earlier_version_are_migrated(
    context: JobContext, produce: Produce, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worker, cold, source = (
        FakeWorker(context, produce),
        tmp_path / "cold",
        context.lake(str(tmp_path / "x"), KIND).head.source,
    )
    worker.park("a", NOW_MS)
    message = {"id": "a", "partition": 1, "offset": 0, "due_ms": NOW_MS, "order_ms": 1, "source": "requests-1-1"}
    message |= {"to": "there", "value": b"v"}
    topic = context.topic("cold")
    old_tables(cold, park.KIND, source, {"messages": [message]}, positions={topic: {"0": 0, "1": 1, "2": 0, "3": 0}})
    with pytest.raises(LakeMismatch, match="holds a cold tier of"):
        context.lake(str(cold), KIND)

    assert park.park(context, context.lake(str(cold), park.KIND)) == 0
    assert "are now one Delta Lake table" in capsys.readouterr().out
    assert promote.promote(context, str(cold), HOUR_MS) == 1
    run(vacuum, context, str(cold), "--older-than", "PT0S")
    folders = {file.relative_to(cold).parts[0] for file in cold.rglob("*") if file.is_file()}
    assert folders == {"_delta_log", "kind=messages"}

    event = {"id": "b", "source": "p-requests-0-1", "at_ms": NOW_MS, "due_ms": NOW_MS, "partition": 0, "offset": 0}
    old_tables(tmp_path / "ledger", KIND, source, {"accepted": [event]}, positions={})
    lake = context.lake(str(tmp_path / "ledger"), KIND)
    [row] = lake.read("accepted", ACCEPTED).collect()
    assert {name: row[name] for name in event} == event
    assert [life.ending for life in lives(lake).collect()] == [None]
