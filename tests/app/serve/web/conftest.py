"""Builders of progress records, and a worker's state that tests set by hand."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.base.clock import Clock
from app.base.histogram import Histogram
from app.engine.commit.journal import CommittedSteps
from app.engine.reports.agreement import Agreement
from app.engine.reports.due_soon import DueSoon
from app.engine.reports.measures import Measures
from app.engine.reports.queues import Said
from app.engine.reports.reader import ProgressReader, Report, decode_progress
from app.engine.reports.state import Recovery, Wanted
from app.settings.quotas import Quota
from app.settings.settings import Settings

NOW_MS = 1_800_000_000_000

Record = Callable[..., dict[str, Any]]


def _record(partition: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "partition": partition,
        "at": NOW_MS,
        "fired_to": NOW_MS - 5,
        "positions": {"delay-requests": 1234},
        "pending": {"orders": 10},
        "overdue": 0,
        "next_due": NOW_MS + 60_000,
        "held": {},
        "lateness": {},
        "worker": "http://127.0.0.1:6066",
        "version": "0.1.0",
        "settings": {},
    } | changes


@pytest.fixture
def record() -> Record:
    """Makes the value of a progress record as a dict, with the given fields changed."""
    return _record


@pytest.fixture
def reports() -> Callable[..., dict[int, Report]]:
    """Makes reports by partition from such dicts, all appended at the same time."""

    def make(*records: dict[str, Any], appended_ms: int = NOW_MS) -> dict[int, Report]:
        decoded = [decode_progress(b"%d" % one["partition"], msgspec.json.encode(one)) for one in records]
        return {progress.partition: Report(progress, 0, appended_ms) for progress in decoded}

    return make


@dataclass
class FakeState:
    app_id: str = "delay"
    partitions: int = 2
    owned: tuple[int, ...] = (0,)
    worker_url: str = "http://127.0.0.1:6066"
    version: str = "0.1.0"
    reason: str | None = None
    ill: str | None = None
    unconfirmed: int | None = None
    restores: list[Recovery] = field(default_factory=list)
    now: int = NOW_MS
    troubles: dict[str, str] = field(default_factory=dict)
    waiting: dict[int, dict[str, tuple[int, int | None]]] = field(default_factory=dict)
    wants: Wanted = field(default_factory=Wanted)
    said: list[Said] = field(default_factory=list)
    quotas: dict[str, Quota | None] = field(default_factory=dict)
    measures: Measures | None = None
    reader: ProgressReader = field(default_factory=lambda: ProgressReader("127.0.0.1:1", "delay-progress"))

    def ready_reason(self) -> str | None:
        return self.reason

    def health_reason(self) -> str | None:
        return self.reason or self.ill

    def unconfirmed_since_ms(self) -> int | None:
        return self.unconfirmed

    def reports(self) -> Mapping[int, Report]:
        return self.reader.reports

    def recovery(self) -> list[Recovery]:
        return self.restores

    def trouble(self, destination: str) -> str:
        return self.troubles.get(destination, "")

    def wanted(self) -> Wanted:
        return self.wants

    def queues(self) -> list[Said]:
        return self.said

    def destinations(self, partition: int) -> dict[str, tuple[int, int | None]] | None:
        return self.waiting.get(partition)

    def now_ms(self) -> int:
        return self.now

    def report(self, record: dict[str, Any], appended_ms: int = NOW_MS) -> None:
        assert self.reader.absorb(b"%d" % record["partition"], msgspec.json.encode(record), 0, appended_ms)


@pytest.fixture
def state() -> FakeState:
    """A worker that is ready and has read everything; no report yet."""
    fake = FakeState()
    fake.reader.caught_up.set()
    return fake


class FakeInputs:
    """Inputs that have been read to their end."""

    def position(self, _topic: str, _partition: int) -> int | None:
        return 7

    def end(self, _topic: str, _partition: int) -> int | None:
        return 7


@pytest.fixture
def measures(tmp_path: Path) -> Measures:
    """The counters of a worker that has no partition yet."""
    settings = Settings.from_env({"DATADIR": str(tmp_path), "DELAY_APP_ID": "delay"})
    settings.data_path.mkdir(parents=True, exist_ok=True)
    clock = Clock()
    lateness = Histogram((0.001, 1.0))
    return Measures(
        settings, clock, CommittedSteps(), lateness, {}, FakeInputs(), Agreement(settings, NOW_MS), DueSoon(clock, {})
    )
