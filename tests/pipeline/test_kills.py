"""A command that is ended at any point of its writes, and run again, neither loses nor repeats a record.

A command in this process is cut off at each point, and a command in its own process is killed with SIGKILL in the
middle of a write. With KILLS=10, each point is cut ten times, and ten processes of each command are killed, at each
point in turn.
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
from tests.pipeline.test_park_promote import Worker
from tests.pipeline.topic_writer import HOUR_MS, NOW_MS, TopicWriter

#: Bytes of a value: a send of several takes a while, because each needs its own request.
_LARGE = bytes(20_000)


@pytest.fixture
def here(context: JobContext, monkeypatch: pytest.MonkeyPatch) -> InProcessInterrupter:
    """Return the cutter that runs commands in this process, in a second."""
    return InProcessInterrupter(context, monkeypatch)


@pytest.fixture(params=["cut-off", "killed"])
def interrupter(
    request: pytest.FixtureRequest, here: InProcessInterrupter, own_spark: dict[str, str], tmp_path: Path
) -> Interrupter:
    """Return the cutter that ends commands."""
    return here if request.param == "cut-off" else ProcessKiller(here.context, own_spark, tmp_path / "commands.log")


def ids(consume: Consume, topic: str) -> Counter[tuple[str, str]]:
    """Return the number of records on a topic by id and due time."""
    said = [dict(message.headers() or []) for message in consume(topic)]
    return Counter((each["delay-id"].decode(), each["delay-at"].decode()) for each in said if "delay-at" in each)


def test_bulk(
    interrupter: Interrupter, here: InProcessInterrupter, context: JobContext, consume: Consume, tmp_path: Path
) -> None:
    source, due = tmp_path / "rows.jsonl", NOW_MS + HOUR_MS
    source.write_text(
        "".join(json.dumps({"number": number, "at": due + number}) + "\n" for number in range(400)), "utf-8"
    )
    words = [str(source), "--format", "jsonl", "--job", "j", "--at", "at", "--to", "out", "--value", "number"]
    points = interrupter.points("bulk")
    for point in points:
        interrupter.interrupt(point, bulk, *words, "--natural-key", "number", "--max-per-second", "2000")
    assert here.run(bulk, *words, "--natural-key", "number") == 0

    found = ids(consume, context.topic("requests"))
    assert len(found) == len({id_ for id_, _ in found}) == 400
    assert interrupter.interruptions == Counter(points)


def test_park_and_compact(
    interrupter: Interrupter, here: InProcessInterrupter, context: JobContext, produce: Produce, tmp_path: Path
) -> None:
    worker, cold, numbers = Worker(context, produce), str(tmp_path / "cold"), itertools.count()
    there: set[str] = set()
    points = interrupter.points("park", "compact")
    for point in points:
        for number in itertools.islice(numbers, 3):
            worker.parks(f"m{number}", NOW_MS + HOUR_MS + number)
            there.add(f"m{number}")
        gone = min(there)
        worker.touches(gone, "cancel")
        there.discard(gone)
        interrupter.interrupt(point, park, cold, *(["--compact"] if point.startswith("compact.") else []))
        here.run(park, cold)
    here.run(park, cold, "--compact")

    now = ColdState.of(context.lake(cold, park.KIND))
    assert {row.id for row in now.live().collect()} == there
    assert now.messages.select(F.countDistinct("id"), F.count("id")).collect()[0][:] == (len(there), len(there))
    assert interrupter.interruptions == Counter(points)


def test_promote(
    interrupter: Interrupter,
    here: InProcessInterrupter,
    context: JobContext,
    produce: Produce,
    consume: Consume,
    tmp_path: Path,
) -> None:
    worker, cold, numbers = Worker(context, produce), str(tmp_path / "cold"), itertools.count()
    points = interrupter.points("promote")
    for point in points:
        for number in itertools.islice(numbers, 200):
            worker.parks(f"m{number}", NOW_MS + number, value=_LARGE)
        here.run(park, cold)
        interrupter.interrupt(point, promote, cold)
        here.run(promote, cold)

    found = ids(consume, context.topic("requests"))
    count = next(numbers)
    assert set(found) == {(f"m{number}", str(NOW_MS + number)) for number in range(count)}
    # Messages that were sent before a cut are sent once more, and the worker recognises them by their order.
    assert max(found.values()) <= 2
    assert interrupter.interruptions == Counter(points)


def test_ledger(
    interrupter: Interrupter, here: InProcessInterrupter, context: JobContext, produce: Produce, tmp_path: Path
) -> None:
    topics, root, count = TopicWriter(context, produce), str(tmp_path / "ledger"), 0
    points = interrupter.points("ledger")
    for point in points:
        topics.life(topics.request())
        count += 1
        interrupter.interrupt(point, ledger, root)
    here.run(ledger, root)

    lake = context.lake(root, KIND)
    assert [(row["ending"], row["count"]) for row in lives(lake).groupBy("ending").count().collect()] == [
        ("delivered", count)
    ]
    columns = {"requests": REQUESTS, "accepted": ACCEPTED, "outcomes": OUTCOMES}
    rows = {table: lake.read(table, there).count() for table, there in columns.items()}
    assert rows == dict.fromkeys(rows, count), "nothing is there twice"
    assert interrupter.interruptions == Counter(points)


def test_rescue(
    interrupter: Interrupter,
    here: InProcessInterrupter,
    context: JobContext,
    produce: Produce,
    consume: Consume,
    tmp_path: Path,
) -> None:
    topics, root, numbers = TopicWriter(context, produce), str(tmp_path / "ledger"), itertools.count()
    due, told = NOW_MS - HOUR_MS, set[str]()
    points = interrupter.points("rescue")
    for point in points:
        for number in itertools.islice(numbers, 20):
            source = topics.request(f"lost-{number}", due_ms=due, value=_LARGE)
            told.add(source)
            topics.event("accepted", source, f"lost-{number}", due=due)
        topics.progress()
        interrupter.interrupt(point, rescue, root, "--apply")
        _deliver(topics, consume, told)
    assert here.run(rescue, root, "--apply") == 0

    sent = Counter(id_ for id_, _ in ids(consume, topics.requests).elements())
    count = next(numbers)
    assert sent == {f"lost-{number}": 2 for number in range(count)}, "asked for once, and sent again once"
    assert interrupter.interruptions == Counter(points)


def _deliver(topics: TopicWriter, consume: Consume, told: set[str]) -> None:
    """Return the request of a rescue as a worker decodes it."""
    for message in consume(topics.requests):
        place = (topics.requests, message.partition())
        source = f"{topics.requests}-{message.partition()}-{message.offset()}"
        topics.ends[place] = max(topics.ends[place], message.offset() + 1)
        if source not in told:
            told.add(source)
            topics.life(source, dict(message.headers() or [])["delay-id"].decode())
