"""A command that is interrupted at any point of its writes and run again neither loses nor repeats a record.

A command in this process is cut off at each point, and a command in its own process is killed with SIGKILL. With
KILLS=10, each point has ten interruptions, and ten processes of each command are killed, at each point in turn.
"""

import itertools
import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.cold.state import ColdState
from pipeline.context import JobContext
from pipeline.jobs import bulk, ledger, park, promote, rescue
from pipeline.ledger import KIND, lives
from pipeline.ledger.tables import ACCEPTED, OUTCOMES, REQUESTS
from tests.pipeline.conftest import Consume, Produce
from tests.pipeline.interrupter import InProcessInterrupter, Interrupter, ProcessKiller
from tests.pipeline.test_park_promote import FakeWorker
from tests.pipeline.topic_writer import HOUR_MS, NOW_MS, TopicWriter

#: A large value: Kafka's producer sends each in a request of its own, so that a send of several takes a while.
_LARGE = bytes(20_000)


@pytest.fixture
def in_process(context: JobContext, monkeypatch: pytest.MonkeyPatch) -> InProcessInterrupter:
    """Return an interrupter of commands in this process, where each takes only a second."""
    return InProcessInterrupter(context, monkeypatch)


@pytest.fixture(params=["cut-off", "killed"])
def interrupter(
    request: pytest.FixtureRequest, in_process: InProcessInterrupter, own_spark: dict[str, str], tmp_path: Path
) -> Interrupter:
    """Return an interrupter of commands in this process or in their own processes."""
    if request.param == "cut-off":
        return in_process
    return ProcessKiller(in_process.context, own_spark, tmp_path / "commands.log")


def ids(consume: Consume, topic: str) -> Counter[tuple[str, str]]:
    """Return the number of records on a topic by id and due time."""
    all_headers = [dict(message.headers() or []) for message in consume(topic)]
    scheduled = (headers for headers in all_headers if "delay-at" in headers)
    return Counter((headers["delay-id"].decode(), headers["delay-at"].decode()) for headers in scheduled)


def test_an_interrupted_bulk_sends_all_rows(
    interrupter: Interrupter, in_process: InProcessInterrupter, context: JobContext, consume: Consume, tmp_path: Path
) -> None:
    source, due_ms = tmp_path / "rows.jsonl", NOW_MS + HOUR_MS
    source.write_text(
        "".join(json.dumps({"number": number, "at": due_ms + number}) + "\n" for number in range(400)), "utf-8"
    )
    arguments = [str(source), "--format", "jsonl", "--job", "j", "--at", "at", "--to", "out", "--value", "number"]
    points = interrupter.points("bulk")
    for point in points:
        interrupter.interrupt(point, bulk, *arguments, "--natural-key", "number", "--max-per-second", "2000")
    assert in_process.run(bulk, *arguments, "--natural-key", "number") == 0

    records = ids(consume, context.topic("requests"))
    assert len(records) == len({id_ for id_, _ in records}) == 400
    assert interrupter.interruptions == Counter(points)


def test_an_interrupted_park_or_compaction_keeps_each_message_once(
    interrupter: Interrupter, in_process: InProcessInterrupter, context: JobContext, produce: Produce, tmp_path: Path
) -> None:
    worker, cold, numbers = FakeWorker(context, produce), str(tmp_path / "cold"), itertools.count()
    expected: set[str] = set()
    points = interrupter.points("park", "compact")
    for point in points:
        for number in itertools.islice(numbers, 3):
            worker.park(f"m{number}", NOW_MS + HOUR_MS + number)
            expected.add(f"m{number}")
        cancelled = min(expected)
        worker.touch(cancelled, "cancel")
        expected.discard(cancelled)
        interrupter.interrupt(point, park, cold, *(["--compact"] if point.startswith("compact.") else []))
        in_process.run(park, cold)
    in_process.run(park, cold, "--compact")

    state = ColdState.of(context.lake(cold, park.KIND))
    assert {row.id for row in state.live().collect()} == expected
    assert state.messages.select(F.countDistinct("id"), F.count("id")).collect()[0][:] == (len(expected), len(expected))
    assert interrupter.interruptions == Counter(points)


def test_an_interrupted_promote_sends_each_message_at_most_twice(
    interrupter: Interrupter,
    in_process: InProcessInterrupter,
    context: JobContext,
    produce: Produce,
    consume: Consume,
    tmp_path: Path,
) -> None:
    worker, cold, numbers = FakeWorker(context, produce), str(tmp_path / "cold"), itertools.count()
    points = interrupter.points("promote")
    for point in points:
        for number in itertools.islice(numbers, 200):
            worker.park(f"m{number}", NOW_MS + number, value=_LARGE)
        in_process.run(park, cold)
        interrupter.interrupt(point, promote, cold)
        in_process.run(promote, cold)

    records = ids(consume, context.topic("requests"))
    count = next(numbers)
    assert set(records) == {(f"m{number}", str(NOW_MS + number)) for number in range(count)}
    # Messages that were sent before an interruption are sent once more. The worker recognises them by their source.
    assert max(records.values()) <= 2
    assert interrupter.interruptions == Counter(points)


def test_an_interrupted_ledger_counts_each_message_once(
    interrupter: Interrupter, in_process: InProcessInterrupter, context: JobContext, produce: Produce, tmp_path: Path
) -> None:
    topics, root, count = TopicWriter(context, produce), str(tmp_path / "ledger"), 0
    points = interrupter.points("ledger")
    for point in points:
        topics.life(topics.request())
        count += 1
        interrupter.interrupt(point, ledger, root)
    in_process.run(ledger, root)

    lake = context.lake(root, KIND)
    assert [(row["ending"], row["count"]) for row in lives(lake).groupBy("ending").count().collect()] == [
        ("delivered", count)
    ]
    columns = {"requests": REQUESTS, "accepted": ACCEPTED, "outcomes": OUTCOMES}
    rows = {table: lake.read(table, table_columns).count() for table, table_columns in columns.items()}
    assert rows == dict.fromkeys(rows, count), "no row is repeated"
    assert interrupter.interruptions == Counter(points)


def test_an_interrupted_rescue_sends_each_lost_message_once(
    interrupter: Interrupter,
    in_process: InProcessInterrupter,
    context: JobContext,
    produce: Produce,
    consume: Consume,
    tmp_path: Path,
) -> None:
    topics, root, numbers = TopicWriter(context, produce), str(tmp_path / "ledger"), itertools.count()
    due_ms, delivered_sources = NOW_MS - HOUR_MS, set[str]()
    points = interrupter.points("rescue")
    for point in points:
        for number in itertools.islice(numbers, 20):
            source = topics.request(f"lost-{number}", due_ms=due_ms, value=_LARGE)
            delivered_sources.add(source)
            topics.event("accepted", source, f"lost-{number}", due=due_ms)
        topics.progress()
        interrupter.interrupt(point, rescue, root, "--apply")
        _deliver(topics, consume, delivered_sources)
    assert in_process.run(rescue, root, "--apply") == 0

    requests_by_id = Counter(id_ for id_, _ in ids(consume, topics.requests).elements())
    count = next(numbers)
    assert requests_by_id == {f"lost-{number}": 2 for number in range(count)}, (
        "each message was requested once and rescued once"
    )
    assert interrupter.interruptions == Counter(points)


def _deliver(topics: TopicWriter, consume: Consume, delivered_sources: set[str]) -> None:
    """Write the events of a delivery for each request that has none yet."""
    for message in consume(topics.requests):
        partition = (topics.requests, message.partition())
        source = f"{topics.requests}-{message.partition()}-{message.offset()}"
        topics.ends[partition] = max(topics.ends[partition], message.offset() + 1)
        if source not in delivered_sources:
            delivered_sources.add(source)
            topics.life(source, dict(message.headers() or [])["delay-id"].decode())
