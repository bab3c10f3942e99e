"""The roll-up: stores the counts of ended messages, so that later reconciliations read only new and open messages.

A reconciliation adds two things to the ledger: the account of the lives that have ended, and copies of the rows of all
others, as kinds `open-*`. The next reconciliation reads these copies and the rows of later commits, and adds the
account. If one of these rows is an event about a message that is rolled up, such as a second delivery after a crash,
the whole ledger is read again: such an event has neither its request nor a copied row beside it.
"""

import dataclasses
import sys
from calendar import timegm
from collections import Counter
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.columns import first_life, life_of_request, rewritten, schema
from pipeline.errors import LakeBusy
from pipeline.lake import ROLLED_UP
from pipeline.ledger import KIND
from pipeline.ledger.lives import CLOSED
from pipeline.ledger.progress import position_of
from pipeline.ledger.tables import ENDINGS, EVENT_TABLES
from pipeline.persisted import persisted
from pipeline.reconcile.account import COUNTS, GROUPS, account
from pipeline.spark_errors import sentence
from punctual.contract.namespaces import Namespaces

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import date

    from pyspark.sql import Row

    from pipeline.lake import Lake
    from pipeline.ledger.lives import Lives
    from pipeline.reconcile.lost import Judge

#: Counts by day of acceptance, namespace and destination (null for requests that were refused).
Account = dict[tuple["date", str, "str | None"], Counter[str]]

#: Fewer ended messages than this are not rolled up: reading them takes less time than a commit.
_LEAST = 100_000
#: Maximum number of open messages (some 100 MB) that are broadcast for a join.
FEW = 1_000_000
#: A command's events may still come for this time, for example from the worker that it was forwarded to.
_YOUNG_MS = 3_600_000
_KINDS = ("requests", "rescued", *EVENT_TABLES)
_OPEN = "open-"
_OPEN_KINDS = [_OPEN + kind for kind in _KINDS]
#: Columns that an account does not need. `erase` finds copies by their key.
_NOT_READ = ("value", "headers")
_ACCOUNT = "account"
#: The rows of the stored account; `at_ms` is the beginning of the day. They have no `day`, which would split the file.
_COUNTED = schema(at_ms="long", namespace="string", to="string", event="string", count="long")
_ROLLED_UP = (*ENDINGS, "refused")


@contextmanager
def since_roll_up(judge: "Judge", namespaces: Namespaces) -> "Iterator[tuple[Judge, Account]]":
    """For a block, return a judge of messages that are new or open since the roll-up, and the account of the others.

    The judge reads the whole ledger if there is no roll-up by these namespaces, if it leaves out messages before a
    time, or if an event is about a message that is rolled up.
    """
    lake = judge.lake
    note = lake.head.notes.get(ROLLED_UP)
    if note is not None and not judge.since_ms and note == _note(lake, namespaces) | {"commit": note["commit"]}:
        copies = lake.rows(_OPEN_KINDS).withColumn("copied", F.lit(True))  # noqa: FBT003 - a column
        later = lake.rows(_KINDS).where(F.col("commit") > note["commit"]).withColumn("copied", F.lit(False))  # noqa: FBT003
        rows = copies.unionByName(later).drop(*_NOT_READ).withColumn("kind", F.replace("kind", F.lit(_OPEN)))
        with persisted(rows):
            if not _has_event_of_rolled_up(rows, lake):
                yield dataclasses.replace(judge, lake=lake.narrowed(rows)), _rolled_up(lake)
                return
    yield judge, {}


def _note(lake: "Lake", namespaces: Namespaces) -> dict[str, object]:
    """Return the note about a roll-up of a ledger as it is; an account of other topics or namespaces is another one."""
    topics = sorted(lake.head.positions)
    return {"commit": lake.head.number, "namespaces": str(namespaces), "topics": topics}


def _has_event_of_rolled_up(rows: DataFrame, lake: "Lake") -> bool:
    known = rows.where("kind = 'requests' or copied").select(_first_life())
    later = rows.where("kind <> 'requests' and not copied and source_offset is not null")
    events = later.where(~_is_ahead(lake)).select(_first_life())
    return not events.join(known, "life", "left_anti").isEmpty()


def _rolled_up(lake: "Lake") -> Account:
    counts: Account = {}
    rows = lake.read(_ACCOUNT, _COUNTED).withColumn("day", F.to_date(F.timestamp_millis("at_ms")))
    for row in rows.collect():
        counts.setdefault(tuple(row[name] for name in GROUPS), Counter())[row["event"]] = row["count"]
    for counted in counts.values():
        counted["accepted"] = sum(counted[ending] for ending in ENDINGS)
    return counts


def total(rows: "Iterable[Row]", rolled_up: Account) -> Account:
    """Return the sums of the rows of an account (`account.account`) and the account of a roll-up."""
    sums = {group: Counter(counts) for group, counts in rolled_up.items()}
    for row in rows:
        sums.setdefault(tuple(row[name] for name in GROUPS), Counter()).update({name: row[name] for name in COUNTS})
    return dict(sorted(sums.items(), key=lambda item: (*item[0][:2], item[0][2] is None, item[0][2] or "")))


def roll_up(ledger: "Lake", judge: "Judge", lives: "Lives", counts: Account, namespaces: Namespaces) -> None:
    """Roll up the lives that have ended, if they are many and more than the others.

    Args:
        ledger: the ledger.
        judge: the judge of the ledger, which may be narrowed.
        lives: its lives.
        counts: the account of the whole ledger.
        namespaces: the namespaces of the account.

    If that fails, or another run commits to the ledger at the same time, the next reconciliation reads more.
    """
    if not _pays(lives.closed, 0):
        return
    try:
        with persisted(_kept(judge, lives)) as kept:
            _roll_up(ledger, judge, lives, kept, counts, namespaces)
    except LakeBusy:
        return
    except (Py4JJavaError, PySparkException) as error:
        text = sentence(error)
        sys.stderr.write(f"Ended messages are not rolled up, so the next run takes as long as this one. {text}\n")


def _pays(ended: int, kept: int) -> bool:
    """Return whether the roll-up of `ended` messages saves more time than copying the rows of `kept` messages costs."""
    return ended >= max(_LEAST, kept)


def _kept(judge: "Judge", lives: "Lives") -> DataFrame:
    """Return the first lives that are not rolled up: something is expected to happen to them, or may be."""
    requests, events = judge.lake.rows("requests"), judge.lake.rows(("rescued", *EVENT_TABLES))
    parts = (
        lives.every.where(f"not ({CLOSED})").select(first_life(F.col("life")).alias("life")),
        judge.silent.select("life"),
        requests.where("op <> 'schedule'").where(_is_young(judge)).select(_first_life()),
        events.where(_is_ahead(judge.lake)).select(_first_life()),
    )
    return reduce(DataFrame.union, parts).distinct()


def _roll_up(
    ledger: "Lake", judge: "Judge", lives: "Lives", kept: DataFrame, counts: Account, namespaces: Namespaces
) -> None:
    count = kept.count()
    kept = F.broadcast(kept) if count <= FEW else kept
    first = lives.real.withColumn("first", first_life(F.col("life")))
    of_kept = first.join(kept.withColumnRenamed("life", "first"), "first", "left_semi").drop("first")
    rows = judge.lake.rows(_KINDS).drop(*_NOT_READ).withColumn("life", _first_life())
    with persisted(of_kept), persisted(rows.join(kept, "life", "left_semi").drop("life")) as copies:
        if not _pays(lives.closed - of_kept.where(CLOSED).count(), count):
            return
        remaining = dataclasses.replace(lives, real=of_kept, several=0)
        kept_counts = total(account(judge.lake.narrowed(copies), remaining, namespaces=namespaces).collect(), {})
        done = [
            (timegm(day.timetuple()) * 1_000, namespace, to, name, number)
            for (day, namespace, to), counted in counts.items()
            for name in _ROLLED_UP
            if (number := counted[name] - kept_counts.get((day, namespace, to), Counter())[name])
        ]
        ended = ledger.spark.createDataFrame(done, _COUNTED).withColumn("day", F.lit(None))
        changed = {"kind": F.concat(F.lit(_OPEN), "kind"), "day": F.lit(None)}
        copied = rewritten(copies, KIND, changed).coalesce(1 + count // 100_000)
        notes = {ROLLED_UP: _note(ledger, namespaces)}
        ledger.commit({_ACCOUNT: ended.coalesce(1)}, notes=notes, replaced=[_ACCOUNT, *_OPEN_KINDS], copied=copied)


def _is_ahead(lake: "Lake") -> Column:
    """Return the condition that an event's request follows: a run of the ledger reads events up to a later time."""
    positions = lake.head.positions
    read_to = F.coalesce(position_of(positions, "source_topic", "source_partition"), F.lit(0))
    return F.col("source_topic").isin([*positions]) & (F.col("source_offset") >= read_to)


def _is_young(judge: "Judge") -> Column:
    """Return the condition that the events of a command may still come."""
    read_to = judge.read_to()
    young: Column = F.unix_millis("stamp") >= judge.lake.head.at_ms - _YOUNG_MS
    return young | read_to.isNull() | (F.col("offset") >= read_to)


def _first_life() -> Column:
    """Return the column life, the life that began with a row's request."""
    of_event = F.struct(
        F.col("source_topic").alias("topic"),
        F.col("source_partition").alias("partition"),
        F.col("source_offset").alias("offset"),
        F.lit(None).cast("int").alias("occurrence"),
    )
    return F.when(F.col("kind") == "requests", life_of_request()).otherwise(of_event).alias("life")
