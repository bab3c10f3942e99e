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
from tests.pipeline.cutter import Cutter, CutterHere, Killer
from tests.pipeline.teller import HOUR_MS, NOW_MS, Teller
from tests.pipeline.test_park_promote import Worker

#: Bytes of a value: a send of several takes a while, because each needs its own request.
_LARGE = bytes(20_000)


@pytest.fixture
def here(context: JobContext, monkeypatch: pytest.MonkeyPatch) -> CutterHere:
    """Return the cutter that runs commands in this process, in a second."""
    return CutterHere(context, monkeypatch)


@pytest.fixture(params=["cut-off", "killed"])
def cutter(request: pytest.FixtureRequest, here: CutterHere, own_spark: dict[str, str], tmp_path: Path) -> Cutter:
    """Return the cutter that ends commands."""
    return here if request.param == "cut-off" else Killer(here.context, own_spark, tmp_path / "commands.log")


def ids(consume: Consume, topic: str) -> Counter[tuple[str, str]]:
    """Return the number of records on a topic by id and due time."""
    said = [dict(message.headers() or []) for message in consume(topic)]
    return Counter((each["delay-id"].decode(), each["delay-at"].decode()) for each in said if "delay-at" in each)


def test_bulk(cutter: Cutter, here: CutterHere, context: JobContext, consume: Consume, tmp_path: Path) -> None:
    source, due = tmp_path / "rows.jsonl", NOW_MS + HOUR_MS
    source.write_text(
        "".join(json.dumps({"number": number, "at": due + number}) + "\n" for number in range(400)), "utf-8"
    )
    words = [str(source), "--format", "jsonl", "--job", "j", "--at", "at", "--to", "out", "--value", "number"]
    points = cutter.points("bulk")
    for point in points:
        cutter.cut(point, bulk, *words, "--natural-key", "number", "--max-per-second", "2000")
    assert here.run(bulk, *words, "--natural-key", "number") == 0

    found = ids(consume, context.topic("requests"))
    assert len(found) == len({id_ for id_, _ in found}) == 400
    assert cutter.cuts == Counter(points)


def test_park_and_compact(
    cutter: Cutter, here: CutterHere, context: JobContext, produce: Produce, tmp_path: Path
) -> None:
    worker, cold, numbers = Worker(context, produce), str(tmp_path / "cold"), itertools.count()
    there: set[str] = set()
    points = cutter.points("park", "compact")
    for point in points:
        for number in itertools.islice(numbers, 3):
            worker.parks(f"m{number}", NOW_MS + HOUR_MS + number)
            there.add(f"m{number}")
        gone = min(there)
        worker.touches(gone, "cancel")
        there.discard(gone)
        cutter.cut(point, park, cold, *(["--compact"] if point.startswith("compact.") else []))
        here.run(park, cold)
    here.run(park, cold, "--compact")

    now = ColdState.of(context.lake(cold, park.KIND))
    assert {row.id for row in now.live().collect()} == there
    assert now.messages.select(F.countDistinct("id"), F.count("id")).collect()[0][:] == (len(there), len(there))
    assert cutter.cuts == Counter(points)


def test_promote(
    cutter: Cutter, here: CutterHere, context: JobContext, produce: Produce, consume: Consume, tmp_path: Path
) -> None:
    worker, cold, numbers = Worker(context, produce), str(tmp_path / "cold"), itertools.count()
    points = cutter.points("promote")
    for point in points:
        for number in itertools.islice(numbers, 200):
            worker.parks(f"m{number}", NOW_MS + number, value=_LARGE)
        here.run(park, cold)
        cutter.cut(point, promote, cold)
        here.run(promote, cold)

    found = ids(consume, context.topic("requests"))
    count = next(numbers)
    assert set(found) == {(f"m{number}", str(NOW_MS + number)) for number in range(count)}
    # Messages that were sent before a cut are sent once more, and the worker recognises them by their order.
    assert max(found.values()) <= 2
    assert cutter.cuts == Counter(points)


def test_ledger(cutter: Cutter, here: CutterHere, context: JobContext, produce: Produce, tmp_path: Path) -> None:
    teller, root, count = Teller(context, produce), str(tmp_path / "ledger"), 0
    points = cutter.points("ledger")
    for point in points:
        teller.life(teller.request())
        count += 1
        cutter.cut(point, ledger, root)
    here.run(ledger, root)

    lake = context.lake(root, KIND)
    assert [(row["ending"], row["count"]) for row in lives(lake).groupBy("ending").count().collect()] == [
        ("delivered", count)
    ]
    columns = {"requests": REQUESTS, "accepted": ACCEPTED, "outcomes": OUTCOMES}
    rows = {table: lake.read(table, there).count() for table, there in columns.items()}
    assert rows == dict.fromkeys(rows, count), "nothing is there twice"
    assert cutter.cuts == Counter(points)


def test_rescue(
    cutter: Cutter, here: CutterHere, context: JobContext, produce: Produce, consume: Consume, tmp_path: Path
) -> None:
    teller, root, numbers = Teller(context, produce), str(tmp_path / "ledger"), itertools.count()
    due, told = NOW_MS - HOUR_MS, set[str]()
    points = cutter.points("rescue")
    for point in points:
        for number in itertools.islice(numbers, 20):
            source = teller.request(f"lost-{number}", due_ms=due, value=_LARGE)
            told.add(source)
            teller.event("accepted", source, f"lost-{number}", due=due)
        teller.progress()
        cutter.cut(point, rescue, root, "--apply")
        _deliver(teller, consume, told)
    assert here.run(rescue, root, "--apply") == 0

    sent = Counter(id_ for id_, _ in ids(consume, teller.requests).elements())
    count = next(numbers)
    assert sent == {f"lost-{number}": 2 for number in range(count)}, "asked for once, and sent again once"
    assert cutter.cuts == Counter(points)


def _deliver(teller: Teller, consume: Consume, told: set[str]) -> None:
    """Return the request of a rescue as a worker decodes it."""
    for message in consume(teller.requests):
        place = (teller.requests, message.partition())
        source = f"{teller.requests}-{message.partition()}-{message.offset()}"
        teller.ends[place] = max(teller.ends[place], message.offset() + 1)
        if source not in told:
            told.add(source)
            teller.life(source, dict(message.headers() or [])["delay-id"].decode())
