"""docs/how-to/delete-customer-data.md: its program deletes the rows of one key from a ledger, and no others."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.docs.how_to import blocks
from tests.harness.waiting import PROGRAM_S


def test_the_program_deletes_the_rows_of_the_key_and_no_others(tmp_path: Path) -> None:
    [program] = [text for kind, text in blocks("delete-customer-data.md") if kind == "python"]
    (tmp_path / "erase.py").write_text(program, "utf-8")
    run = tmp_path / "ledger/requests/000000000001-8eba920d0dd9"
    run.mkdir(parents=True)
    rows = {"id": ["a", "b", "c"], "key": [b"customer-4", None, b"customer-44"], "value": [b"1", b"2", b"3"]}
    pq.write_table(pa.table(rows), run / "part-0.zstd.parquet")
    pq.write_table(
        pa.table(
            {**rows, "key": [None, None, None]},
            pa.schema([("id", pa.string()), ("key", pa.binary()), ("value", pa.binary())]),
        ),
        run / "part-1.zstd.parquet",
    )
    (run / ".part-0.zstd.parquet.crc").write_text("of the file before", "utf-8")

    said = subprocess.run(
        [sys.executable, "erase.py", "ledger", "customer-4"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
    ).stdout

    assert said == "ledger/requests/000000000001-8eba920d0dd9/part-0.zstd.parquet: 1 rows deleted\n"
    left = pq.read_table(run / "part-0.zstd.parquet", partitioning=None)
    assert left["id"].to_pylist() == ["b", "c"]
    assert left.schema.names == list(rows)
    assert sorted(path.name for path in run.iterdir()) == ["part-0.zstd.parquet", "part-1.zstd.parquet"]
