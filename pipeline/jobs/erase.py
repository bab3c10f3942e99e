"""Erase the messages of a person: delete their rows from ledgers, cold tiers and rejects."""

import argparse
from collections.abc import Collection
from functools import partial
from pathlib import Path

from pipeline.context import JobContext
from pipeline.errors import OptionInvalid
from pipeline.jobs.vacuum import table
from pipeline.progress import progress

TOPICS = ()
AGAIN = "Some of the rows may already be deleted. Run the same command again."


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `erase`."""
    parser.add_argument(
        "directory", nargs="+", metavar="DIR", help="directory of a ledger or a cold tier, or of `bulk --rejects`"
    )
    parser.add_argument("--id", action="append", default=[], metavar="ID", help="ID of messages; repeat for several")
    parser.add_argument("--key", action="append", default=[], metavar="KEY", help="key of messages; repeat for several")


def run(context: JobContext, options: argparse.Namespace) -> None:
    """Delete the rows until a pass finds none, since other runs may write meanwhile. Raises OptionInvalid, LakeBusy."""
    if not options.id and not options.key:
        raise OptionInvalid("there is nothing to erase. Give --id or --key.")
    texts, keys, total = {*options.id, *options.key}, [key.encode() for key in options.key], 0
    for root in options.directory:
        with progress(context.spark, "erase"):
            if _is_rejects(root):
                erase, how = partial(_from_rejects, Path(root), texts), "their files are gone"
            else:
                erase = partial(table(context, root).erase, options.id, keys)
                how = f"run `vacuum {root} --older-than PT0S` to delete the files that had them"
            count = sum(iter(erase, 0))
        total += count
        print(f"{root}: {count:,} rows are deleted, and none is left" + (f"; {how}" if count else ""))
    context.summary.count(erased=total)
    context.summary.nothing = not total


def _is_rejects(root: str) -> bool:
    return next(Path(root).glob("run=*"), None) is not None


def _from_rejects(root: Path, texts: Collection[str]) -> int:
    """Delete the rows in which a column equals one of the texts, and return their number. Files are replaced whole."""
    import pyarrow as pa  # noqa: PLC0415 - only rejects need it
    import pyarrow.parquet as pq  # noqa: PLC0415

    deleted = 0
    for file in sorted(root.rglob("*.parquet")):
        rows: pa.Table = pq.ParquetFile(file).read()
        keeps = [not any(_text(value) in texts for value in row.values()) for row in rows.to_pylist()]
        if not all(keeps):
            new = file.with_name(f"{file.name}.new")
            pq.write_table(rows.filter(pa.array(keeps)), new, compression="zstd")
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)  # Hadoop's checksum of the earlier file
            new.replace(file)
            deleted += keeps.count(False)
    return deleted


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
