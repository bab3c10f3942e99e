"""Decides without Spark whether a promotion may have work, from the files' statistics and the topic's new records.

If that is uncertain, or would take long, it answers yes, and Spark finds out.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pipeline.commit import Commit
from punctual.contract import headers as names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from deltalake import DeltaTable

    from pipeline.cold.promotion import Promotion
    from pipeline.preflight import Look

#: Hadoop accepts one slash after a scheme instead of two: `file:/data`, `hdfs:/data`, `dbfs:/data`.
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_LOCAL: Final = re.compile(r"file:(//)?(?=/)", re.IGNORECASE)
#: Commits of others, such as OPTIMIZE, that may follow the last one of the pipeline; after more, Spark looks for it.
_FOLLOWING = 20
#: Maxima of messages that may be due, of voids, and of new records that are read here; beyond them Spark reads them.
_MESSAGES, _VOIDS, _RECORDS = 1_000_000, 10_000_000, 20_000


def opened(root: str, kind: str, source: str) -> "tuple[DeltaTable, Commit] | None":
    """Return a table in a local directory and its last commit; None if there is none, or Spark must look for it.

    Raises LakeMismatch.
    """
    from deltalake import DeltaTable  # noqa: PLC0415 - it may not be installed

    path = _LOCAL.sub("", root, count=1)
    if _SCHEME.match(path) or not Path(path, "_delta_log").is_dir():
        return None
    table = DeltaTable(path)
    commits = (Commit.of(each.get("userMetadata")) for each in table.history(_FOLLOWING))
    head = next((commit for commit in commits if commit), None)
    if head is None:
        return None
    head.require(kind, source, root)
    return table, head


def is_due(table: "DeltaTable", promotion: "Promotion", before: "Promotion") -> bool:
    """Return whether a table may have a message that `promotion` must send, after the promotion `before`."""
    from deltalake import QueryBuilder  # noqa: PLC0415 - it may not be installed

    due = f"kind = 'messages' AND due < to_timestamp_micros({promotion.until_ms * 1_000})"
    fresh = f'SELECT id, max("offset") AS last FROM tier WHERE {due} AND ({promotion.fresh_sql(before)}) GROUP BY id'  # noqa: S608 - numbers
    valid = f"""
        SELECT last FROM ({fresh}) fresh LEFT JOIN tier voids ON voids.kind = 'voids' AND voids.id = fresh.id
        GROUP BY fresh.id, last HAVING last >= coalesce(max(voids."offset"), 0) LIMIT 1
    """  # noqa: S608 - numbers
    tier = QueryBuilder().register("tier", table)

    def count(where: str) -> int:
        [number] = tier.execute(f"SELECT count(*) AS number FROM tier WHERE {where}").read_all()["number"]  # noqa: S608 - the same
        return int(number.as_py())

    many = count(due) > _MESSAGES or count("kind = 'voids'") > _VOIDS
    return many or bool(tier.execute(valid).read_all().num_rows)


def may_bring(look: "Look", topic: str, positions: dict[int, int], ends: dict[int, int], until_ms: int) -> bool:
    """Return whether new records of the cold topic may make a message due by `until_ms`."""
    if sum(end - positions.get(number, 0) for number, end in ends.items()) > _RECORDS:
        return True
    return any(_due_ms(record.headers) < until_ms for record in look.records(topic, positions, ends))


def _due_ms(headers: "Iterable[tuple[str, bytes | None]]") -> float:
    """Return the due time in a record of the cold topic; infinity for one that neither parks nor moves a message."""
    due_text = dict(headers).get(names.AT)
    return int(due_text) if due_text is not None and due_text.isdigit() else float("inf")
