"""Send lost messages again under the same IDs; without --apply only list them."""

import argparse
import time
import uuid
from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.context import JobContext
from pipeline.dialects import bound
from pipeline.errors import OptionInvalid, RescueTooLarge
from pipeline.jobs import ledger
from pipeline.jobs.ledger import other_inputs
from pipeline.jobs.reconcile import UNBALANCED, add_judged, duration, opened, table
from pipeline.lake import Lake
from pipeline.ledger.lives import kept_lives
from pipeline.persisted import persisted
from pipeline.progress import progress
from pipeline.reconcile.lost import LOST, Judge
from pipeline.reconcile.verdict import unknown_sentence, waiting_of
from pipeline.rescue import again, contents, overtaken
from punctual.contract.dialects.dialects import NATIVE
from punctual.contract.policies import parse_policies

_LISTED = 20
TOPICS = ledger.TOPICS
AGAIN = (
    "Some messages may already be sent; the next run finds them in the ledger. Run the same command again, without "
    "--as-is."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rescue`."""
    add_judged(parser)
    parser.add_argument("--policies", default="", metavar="A=NAME VALUE", help="the workers' DELAY_POLICIES")
    parser.add_argument("--window", metavar="PT1H", help="only requests of this last period (default: all)")
    parser.add_argument(
        "--limit",
        type=int,
        default=1_000,
        help="maximum number of messages; if there are more, none is sent (default: %(default)s)",
    )
    parser.add_argument("--apply", action="store_true", help="send the messages; without it, a dry run")


def run(context: JobContext, options: argparse.Namespace) -> int:
    """Find lost messages, and send them again with `--apply`; return 0 if none is lost any more, otherwise 3."""
    now_ms = time.time_ns() // 1_000_000
    since_ms = now_ms - duration(options.window) if options.window else 0
    judge = Judge(opened(context, options), duration(options.grace), since_ms)
    with kept_lives(judge.lake, since_ms) as lives, persisted(waiting_of(judge, lives)) as waiting:
        unknown = judge.unknown(waiting, now_ms)
        with persisted(judge.lost(waiting)) as lost:
            code = _shown_and_sent(context, options, judge, lost)
    context.summary.count(unknown=unknown.total())
    if unknown:
        context.summary.nothing = False
        print(unknown_sentence(unknown))
        return UNBALANCED
    if context.summary.nothing:
        print("nothing is lost")
    return code


def dialects_of(context: JobContext, options: argparse.Namespace) -> dict[str, str]:
    """Return the dialects of inputs in `--inputs` or `--policies`, policies included. Raises OptionInvalid."""
    dialects = other_inputs(options)
    for topic, _, text in (each.strip().partition("=") for each in options.policies.split(",") if each.strip()):
        if topic != context.topic("requests") and topic not in dialects:
            raise OptionInvalid(f"--policies {topic}={text}: there is no such input. Use inputs of --inputs.")
        try:
            parse_policies(text)
        except ValueError as error:
            raise OptionInvalid(f"--policies {topic}={text}: {error}.") from error
        dialects[topic] = bound(dialects.get(topic, NATIVE.name), text)
    return dialects


def _shown_and_sent(context: JobContext, options: argparse.Namespace, judge: Judge, lost: DataFrame) -> int:
    """Print the lost messages, and send them again with `--apply`; return the exit code. Raises RescueTooLarge."""
    with progress(context.spark, "look for lost messages"):
        count = lost.count()
    context.summary.count(lost=count)
    context.summary.nothing = not count
    if not count:
        return 0
    print(table(LOST, lost.orderBy("due_ms", "source").limit(_LISTED).collect()))
    judge.require_events()
    if count > options.limit:
        raise RescueTooLarge(
            f"{count:,} messages seem lost, more than --limit {options.limit:,}. More likely, the ledger is "
            f"wrong: check whether events were lost, or deleted before they were read. If the messages are lost, "
            f"raise --limit."
        )
    sent, overtaken = rescue(context, judge, lost, dialects_of(context, options), apply=options.apply)
    context.summary.count(sent=sent if options.apply else 0, overtaken=overtaken)
    print(f"{count:,} lost, {sent:,} of them {'sent again' if options.apply else 'would be sent again (--apply)'}")
    if overtaken:
        print(f"{overtaken:,} are skipped: their IDs have been scheduled or cancelled since")
    if sent + overtaken < count:
        print(f"{count - sent - overtaken:,} cannot be sent: neither the ledger nor Kafka has their contents any more")
    return 0 if options.apply and sent + overtaken == count else UNBALANCED


def rescue(
    context: JobContext, judge: Judge, lost: DataFrame, dialects: Mapping[str, str] | None = None, *, apply: bool
) -> tuple[int, int]:
    """Send lost messages again if `apply`, and record them in the ledger.

    A message is overtaken if its id has been scheduled or cancelled since. It is recorded and not sent. A run that
    follows a killed one finds the messages of the killed run overtaken.

    Args:
        context: the installation.
        judge: the judge that has found the lost messages.
        lost: the lost messages (`reconcile.lost.LOST`).
        dialects: the dialects of inputs that are not native (DELAY_INPUTS).
        apply: send; otherwise only count.

    Return the number of messages that can be sent, and of those that are overtaken. Raises TopicMissing,
    KafkaUnreachable.
    """
    snapshot = judge.snapshot
    originals = contents(judge.lake, context.kafka, lost)
    with (
        persisted(overtaken(judge.lake, lost, originals, judge.since_ms)) as left,
        persisted(
            again(lost.join(left, "source", "left_anti"), originals, snapshot.inputs, snapshot.partitions, dialects)
        ) as requests,
    ):
        count, aside = requests.count(), left.count()
        if apply and count:
            with progress(context.spark, "send"):
                context.kafka.write(requests.drop("source"), context.topic("requests"))
        if apply and count + aside:
            settled = requests.select("source").unionByName(left)
            _note(judge.lake, lost.join(settled, "source", "left_semi"))
        return count, aside


def _note(lake: Lake, rows: DataFrame) -> None:
    """Record the settled messages."""
    run, now_ms = uuid.uuid4().hex[:12], time.time_ns() // 1_000_000
    noted = rows.select("source", "id", "to", F.lit(now_ms).alias("at_ms"), F.lit(run).alias("run"))
    lake.commit({"rescued": noted.coalesce(1)})
