"""A series that is exported while it is paused, and imported, goes on as it would have without that."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from app.serve.search.pending import pending
from punctual.cli.exported import Exported
from punctual.cli.import_requests import requests_of
from tests.app.engine.steps.test_occurrences import MINUTE, every, rest, skipped
from tests.app.workbench import Workbench
from tests.punctual.contract.records import NOW

Copy = Callable[[Workbench, bool], Workbench]
PAUSED = NOW + 3 * MINUTE + 500


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    made = Workbench(tmp_path / "x.db")
    yield made
    made.close()


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Copy]:
    made = Workbench(tmp_path / "y.db")

    def copied(bench: Workbench, now: bool) -> Workbench:  # noqa: FBT001
        """Export the pending series ten minutes after the start, and import it; `now` is the time of the request."""
        made.now_ms = bench.now_ms = NOW + 10 * MINUTE
        row = bench.store.find("weekly") or b""
        entry = bench.store.entry(row)
        assert entry is not None
        line = {**msgspec.to_builtins(pending(0, row, entry)), "app_id": "delay", "exported_ms": bench.now_ms}
        read = Exported.read(msgspec.json.encode(line))
        for asked in requests_of(read, "weekly", made.now_ms if now else None):
            made.run(replace(made.log.record(made.now_ms), headers=list(asked.headers), key=None, value=asked.value))
        return made

    yield copied
    made.assert_balanced()
    made.close()


def resume(bench: Workbench) -> list[int]:
    """Resume it after 18 minutes, and deliver the messages that are due by then."""
    bench.now_ms = NOW + 18 * MINUTE + 500
    bench.command("resume", "weekly")
    return rest(bench)


@pytest.mark.parametrize("now", [False, True])
@pytest.mark.parametrize("owed", [[], [2, 3]])
def test_an_import_skips_paused_times(bench: Workbench, copy: Copy, owed: list[int], now: bool) -> None:  # noqa: FBT001
    every(bench, delay_misfire="catch-up", delay_count="20")
    bench.now_ms = NOW + (1 if owed else 3) * MINUTE
    rest(bench)
    bench.now_ms = PAUSED
    bench.command("pause", "weekly")
    made = copy(bench, now)

    assert resume(made) == owed
    assert skipped(made) == [("paused", 4, 15)]
    assert made.pending() == {"weekly": NOW + 19 * MINUTE}
    made.now_ms = NOW + 30 * MINUTE
    assert rest(made) == [19, 20]


@pytest.mark.parametrize("now", [False, True])
def test_an_occurrence_that_was_moved_keeps_its_due_time(bench: Workbench, copy: Copy, now: bool) -> None:  # noqa: FBT001
    every(bench)
    bench.command("reschedule", "weekly", delay_at=str(NOW + 25 * MINUTE))
    bench.now_ms = PAUSED
    bench.command("pause", "weekly")
    made = copy(bench, now)

    assert resume(made) == []
    assert made.pending() == {"weekly": NOW + 25 * MINUTE}


@pytest.mark.parametrize("now", [False, True])
def test_one_more_occurrence_is_still_there(bench: Workbench, copy: Copy, now: bool) -> None:  # noqa: FBT001
    bench.ask(delay_id="weekly", delay_to="orders", delay_every="PT1H", delay_misfire="catch-up")
    bench.now_ms = PAUSED
    bench.command("deliver-now", "weekly")
    bench.command("pause", "weekly")
    made = copy(bench, now)

    assert len(resume(made)) == 1
    assert made.pending() == {"weekly": NOW + 60 * MINUTE}
