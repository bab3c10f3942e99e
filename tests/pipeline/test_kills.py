"""Whatever point of its writes a command is cut off at: run again, nothing is lost and nothing is there twice.

What is cut off here is the command, in this process; `tests/chaos` kills processes. KILLS=10 does it ten times at each.
"""

import argparse
import itertools
import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.cold.state import Parked
from pipeline.context import Context
from pipeline.jobs import bulk, ledger, park, promote, rescue
from pipeline.ledger import KIND, lives
from tests.harness.hooked_pipeline import POINTS, CutOff, Points, install
from tests.pipeline.conftest import Consume, Produce
from tests.pipeline.teller import HOUR_MS, NOW_MS, Teller
from tests.pipeline.test_park_promote import Worker

_ROUNDS = int(os.environ.get("KILLS", "1"))


class Cutter:
    """Runs commands, and cuts them off."""

    def __init__(self, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
        self._context, self._patch = context, monkeypatch
        self.cuts: Counter[str] = Counter()

    def run(self, job: ModuleType, *words: str) -> object:
        """Run a command to its end."""
        parser = argparse.ArgumentParser()
        job.add_options(parser)
        context = Context(self._context.spark, self._context.kafka, self._context.app_id)
        return job.run(context, parser.parse_args(words, argparse.Namespace(app_id=context.app_id)))

    def cut(self, point: str, job: ModuleType, *words: str) -> None:
        """Run one, to be cut off at a point if it gets there."""

        def crash() -> None:
            self.cuts[point] += 1
            if threading.current_thread() is threading.main_thread():
                raise CutOff
            self._context.spark.sparkContext.cancelAllJobs()  # in the middle of a write, by the thread that watches it

        with self._patch.context() as patch:
            install(Points(point, 1, crash), patch.setattr)
            try:
                self.run(job, *words)
            except CutOff:
                return
            except Exception as error:
                if "cancelled" not in str(error):
                    raise


@pytest.fixture
def cutter(context: Context, monkeypatch: pytest.MonkeyPatch) -> Cutter:
    return Cutter(context, monkeypatch)


def points(*jobs: str) -> Iterator[str]:
    """Return the points of these, as often as they are to be passed."""
    return iter([point for _ in range(_ROUNDS) for job in jobs for point in POINTS[job]])


def ids(consume: Consume, topic: str) -> Counter[tuple[str, str]]:
    """Count what is on a topic by id and due time."""
    said = [dict(message.headers() or []) for message in consume(topic)]
    return Counter((each["delay-id"].decode(), each["delay-at"].decode()) for each in said if "delay-at" in each)


def test_bulk(cutter: Cutter, context: Context, consume: Consume, tmp_path: Path) -> None:
    source, due = tmp_path / "rows.jsonl", NOW_MS + HOUR_MS
    source.write_text("".join(json.dumps({"number": number, "at": due + number}) + "\n" for number in range(400)))
    words = [str(source), "--format", "jsonl", "--job", "j", "--at", "at", "--to", "out", "--value", "number"]
    for point in points("bulk"):
        cutter.cut(point, bulk, *words, "--natural-key", "number", "--max-per-second", "2000")
    assert cutter.run(bulk, *words, "--natural-key", "number") == 0

    found = ids(consume, context.topic("requests"))
    assert len(found) == len({id_ for id_, _ in found}) == 400
    assert cutter.cuts.total() >= _ROUNDS * len(POINTS["bulk"]) - 1


def test_park_and_compact(cutter: Cutter, context: Context, produce: Produce, tmp_path: Path) -> None:
    worker, cold, numbers = Worker(context, produce), str(tmp_path / "cold"), itertools.count()
    there: set[str] = set()
    for point in points("park", "compact"):
        for number in itertools.islice(numbers, 3):
            worker.parks(f"m{number}", NOW_MS + HOUR_MS + number)
            there.add(f"m{number}")
        gone = min(there)
        worker.touches(gone, "cancel")
        there.discard(gone)
        cutter.cut(point, park, cold, *(["--compact"] if cutter.cuts.total() >= 4 else []))
        cutter.run(park, cold)
    cutter.run(park, cold, "--compact")

    now = Parked.of(context.lake(cold, park.KIND))
    assert {row.id for row in now.live().collect()} == there
    assert now.messages.select(F.countDistinct("id"), F.count("id")).collect()[0][:] == (len(there), len(there))
    assert cutter.cuts.total() >= _ROUNDS * 8 - 2


def test_promote(cutter: Cutter, context: Context, produce: Produce, consume: Consume, tmp_path: Path) -> None:
    worker, cold, numbers = Worker(context, produce), str(tmp_path / "cold"), itertools.count()
    for point in points("promote"):
        for number in itertools.islice(numbers, 200):
            worker.parks(f"m{number}", NOW_MS + number)
        cutter.run(park, cold)
        cutter.cut(point, promote, cold)
        cutter.run(promote, cold)

    found = ids(consume, context.topic("requests"))
    count = next(numbers)
    assert set(found) == {(f"m{number}", str(NOW_MS + number)) for number in range(count)}
    # What was sent before a cut is sent once more, and the worker knows it by its order.
    assert max(found.values()) <= 2
    assert cutter.cuts.total() >= _ROUNDS * len(POINTS["promote"]) - 1


def test_ledger(cutter: Cutter, context: Context, produce: Produce, tmp_path: Path) -> None:
    teller, root, count = Teller(context, produce), str(tmp_path / "ledger"), 0
    for point in points("ledger"):
        teller.life(teller.request())
        count += 1
        cutter.cut(point, ledger, root)
    cutter.run(ledger, root)

    lake = context.lake(root, KIND)
    assert [(row["ending"], row["count"]) for row in lives(lake).groupBy("ending").count().collect()] == [
        ("delivered", count)
    ]
    rows = {
        table: lake.spark.read.parquet(*(f"{root}/{part}" for part in parts)).count()
        for table, parts in ((table, lake.head.tables[table]) for table in ("requests", "accepted", "outcomes"))
    }
    assert rows == dict.fromkeys(rows, count), "nothing is there twice"
    assert cutter.cuts.total() >= _ROUNDS * len(POINTS["ledger"]) - 1


def test_rescue(cutter: Cutter, context: Context, produce: Produce, consume: Consume, tmp_path: Path) -> None:
    teller, root, count = Teller(context, produce), str(tmp_path / "ledger"), 0
    due, told = NOW_MS - HOUR_MS, set[str]()
    for point in points("rescue"):
        name = f"lost-{count}"
        count += 1
        source = teller.request(name, due_ms=due)
        told.add(source)
        teller.event("accepted", source, name, due=due)
        teller.progress()
        cutter.cut(point, rescue, root, "--apply")
        _deliver(teller, consume, told)
    assert cutter.run(rescue, root, "--apply") == 0

    sent = Counter(id_ for id_, _ in ids(consume, teller.requests).elements())
    assert sent == {f"lost-{number}": 2 for number in range(count)}, "asked for once, and sent again once"
    assert cutter.cuts.total() >= _ROUNDS * len(POINTS["rescue"]) - 1


def _deliver(teller: Teller, consume: Consume, told: set[str]) -> None:
    """Read what a rescue has sent as a worker does."""
    for message in consume(teller.requests):
        place = (teller.requests, message.partition())
        source = f"{teller.requests}-{message.partition()}-{message.offset()}"
        teller.ends[place] = max(teller.ends[place], message.offset() + 1)
        if source not in told:
            told.add(source)
            teller.life(source, dict(message.headers() or [])["delay-id"].decode())
