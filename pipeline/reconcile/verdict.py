"""The verdict: whether the account balances, and a sentence for each fault."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.columns import source_text
from pipeline.ledger.lives import NO_NAMESPACES, STRANGE, UNENDED, Lives, kept_lives, pending
from pipeline.persisted import persisted
from pipeline.reconcile.account import COUNTS, GROUPS, PARTS, account, duplicates
from pipeline.reconcile.holdings import Holding, holdings
from pipeline.reconcile.lost import LOST, Judge
from pipeline.reconcile.roll_up import FEW, roll_up, since_roll_up, total
from punctual.contract.namespaces import Namespaces

#: Maximum number of lost messages, of duplicates and of strangers in a verdict.
SHOWN = 1_000


@dataclass(frozen=True)
class Verdict:
    """The result of a reconciliation.

    Attributes:
        rows: the account, by day, namespace and destination (`reconcile.account`).
        lost: the first lost messages (`reconcile.lost.LOST`).
        missing: the number of lost messages.
        unknown: overdue messages that cannot be judged, by partition (`reconcile.lost.Judge.unknown`).
        late: the number of messages that are overdue, but not lost, because their worker has not passed them yet.
        twice: the first messages with more than one delivery: source, to, again (the number of further deliveries).
        strangers: the number of lives with an ending but no beginning; None if the ledger may have missed beginnings.
        strange: the first of these lives: source, to, ending.
        holdings: comparisons with the workers' pending messages; empty if they cannot be compared.
    """

    rows: Sequence[Row]
    lost: Sequence[Row]
    missing: int
    unknown: Counter[int]
    late: int
    twice: Sequence[Row]
    strangers: int | None
    strange: Sequence[Row]
    holdings: Sequence[Holding]

    @classmethod
    def of(cls, judge: Judge, now_ms: int, namespaces: Namespaces = NO_NAMESPACES, *, rolls_up: bool = False) -> Self:
        """Return the verdict on a ledger, with an account by `namespaces`. If `rolls_up`, roll up ended messages.

        Raises EventsMissing if messages seem lost and the ledger has no events.
        """
        lake = judge.lake
        whole = not judge.since_ms and not lake.head.notes.get("whole_since")
        with (
            since_roll_up(judge, namespaces) as (part, rolled_up),
            kept_lives(part.lake, part.since_ms, namespaces) as lives,
            persisted(waiting_of(part, lives)) as waiting,
            persisted(part.silent),
            persisted(part.lost(waiting)) as lost,
        ):
            missing = lost.count()
            if missing:
                part.require_events()
            lost_lives = _broadcast_if_few(lost.select("life"), missing) if missing else None
            late = waiting.where(F.col("due_ms") + part.grace_ms < now_ms)
            late = late if lost_lives is None else late.join(lost_lives, "life", "left_anti")
            unknown = part.unknown(waiting, now_ms)
            strange = lives.real.where(STRANGE).select(_source(), "to", "ending").orderBy("source").limit(SHOWN)
            counts = total(account(part.lake, lives, lost_lives, part.since_ms, namespaces).collect(), rolled_up)
            row = Row(*GROUPS, *COUNTS)
            verdict = cls(
                [row(*group, *(counted[name] for name in COUNTS)) for group, counted in counts.items()],
                lost.select(*LOST).orderBy("due_ms", "source").limit(SHOWN).collect() if missing else (),
                missing,
                unknown,
                late.count() - unknown.total(),
                _twice(part, lives.real) if lives.several else (),
                lives.strangers if whole else None,
                strange.collect() if whole and lives.strangers else (),
                holdings(lake, waiting, lost_lives) if whole else (),
            )
            if rolls_up and not part.since_ms:
                roll_up(lake, part, lives, counts, namespaces)
            return verdict

    @property
    def totals(self) -> Counter[str]:
        """The account's sums over all rows."""
        return Counter({name: sum(row[name] for row in self.rows) for name in COUNTS})

    @property
    def balanced(self) -> bool:
        """Whether every accepted message is accounted for, none is missing, and none was delivered twice."""
        return not self.faults()

    def faults(self) -> list[str]:
        """Return a sentence for each fault of the account."""
        totals, sentences = self.totals, []
        total = sum(totals[part] for part in PARTS)
        if totals["accepted"] != total:
            sentences.append(f"accepted {totals['accepted']:,} is not the sum of the other columns, {total:,}.")
        if self.missing:
            sentences.append(f"{self.missing:,} missing. Send them again with `rescue`.")
        if self.unknown:
            sentences.append(unknown_sentence(self.unknown))
        if totals["duplicates"]:
            sentences.append(f"{totals['duplicates']:,} deliveries are duplicates of earlier ones.")
        if self.strangers:
            sentences.append(f"{self.strangers:,} messages have an ending, but were never accepted.")
        sentences += [
            f"partition {each.partition} holds {each.by_worker:,} by its worker and {each.by_ledger:,} by the ledger; "
            f"only {each.in_flight:,} changes were in flight."
            for each in self.holdings
            if not each.agrees
        ]
        return sentences


def unknown_sentence(unknown: Counter[int]) -> str:
    """Return the sentence about messages that cannot be judged, from their numbers by partition."""
    partitions = ", ".join(str(number) for number in sorted(unknown))
    return (
        f"{unknown.total():,} overdue messages cannot be judged: no worker has reported how far it has read the "
        f"partitions {partitions}. Check that workers run, send a request to each of these partitions, and run this "
        f"command again."
    )


def waiting_of(judge: Judge, lives: Lives) -> DataFrame:
    """Return the messages that are pending by the ledger, found by the lives that have no ending."""
    unended = _broadcast_if_few(lives.real.where(UNENDED).select("life"), lives.unended)
    return pending(judge.lake, judge.since_ms, unended)


def _twice(judge: Judge, lives: DataFrame) -> Sequence[Row]:
    """Return the first messages with several deliveries, those with the most first."""
    several = duplicates(judge.lake, lives).join(lives.select("life", "to"), "life").select(_source(), "to", "again")
    rows: Sequence[Row] = several.orderBy(F.desc("again"), "source").limit(SHOWN).collect()
    return rows


def _source() -> Column:
    return source_text(F.col("life")).alias("source")


def _broadcast_if_few(rows: DataFrame, count: int) -> DataFrame:
    """Return rows; mark them for a broadcast join if they are few."""
    return F.broadcast(rows) if count <= FEW else rows
