"""The demonstration's own decisions and lines; that it runs as a whole is what `make run` shows."""

import io
import re
import socket
from collections import Counter
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from app.dev.demo.options import DemoOptions, parse
from app.dev.demo.screen import LINES_PER_SECOND, Screen
from app.dev.demo.story import orders
from app.dev.demo.tally import DemoTally, percentiles
from app.dev.demo.worker import DemoWorker, WebPortTakenError, WorkerDiedError


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_options_it_runs_one_worker_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PORT", raising=False)
    assert parse([]) == DemoOptions(rate=2.0, seconds=None, workers=1, port=6066, kafka_port=None, data=None)


@pytest.mark.parametrize(
    "wrong", [["--rate", "0"], ["--rate", "inf"], ["--workers", "17"], ["--port", "70000"], ["--seconds", "-1"], ["x"]]
)
def test_a_wrong_option_ends_it_with_exit_code_2(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        parse(wrong)
    assert exit_.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_the_story_cancels_moves_and_hurries_some_messages_well_before_they_are_due() -> None:
    told = list(islice(orders(Random(1), 1000, 60), 2000))  # noqa: S311 - the same story every time

    changes = Counter(order.turn.change if order.turn else None for order in told)
    assert changes[None] > changes["cancel"] > changes["snooze"] > changes["hurry"] > 50
    assert all(1 <= order.due_s <= 60 for order in told)
    assert all(order.turn.after_s < 0.8 * order.due_s for order in told if order.turn)
    assert len({order.id for order in told}) == 2000
    assert {order.id.split("-")[0] for order in told} == {"release", "reminder"}


def test_the_tally_knows_the_messages_that_are_still_due() -> None:
    tally = DemoTally()
    for message_id in "abcd":
        tally.send(message_id)
    tally.cancel("a")

    assert tally.arrive("b", 3) == "arrived"
    assert tally.arrive("b", 9) == "extra"
    assert tally.arrive("a", 9) == "extra"
    assert tally.arrive("x", 9) == "other"
    assert tally.is_waiting("c")
    assert not tally.is_waiting("b")
    assert tally.summary() == (
        "sent 4 · cancelled 1 · moved 0 · arrived 1 · waiting 2 · extra 2 · late p50 3 ms, p99 3 ms"
    )


def test_percentiles_are_values_that_occurred() -> None:
    assert percentiles(Counter(range(1, 101)), (0.5, 0.99, 1.0)) == [50, 99, 100]
    assert percentiles(Counter({7: 1}), (0.0, 0.5, 0.99)) == [7, 7, 7]
    assert percentiles(Counter({1: 999, 500: 1}), (0.99, 0.9999)) == [1, 500]


def test_lines_are_aligned_and_plain_where_colours_are_not_shown() -> None:
    out = io.StringIO()
    screen = Screen(out, {})
    screen.event("delay", "reminder-1", "due in 5.0 s", "Ada: 1 x ink")
    screen.event("arrived", "release-22", "3 ms late", "Ada: 1 x ink")

    first, second = out.getvalue().splitlines()
    assert first.index("Ada") == second.index("Ada")
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}  delay    reminder-1 +due in 5\.0 s   Ada: 1 x ink", first)


@pytest.mark.parametrize(
    ("env", "coloured"), [({}, True), ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_a_terminal_gets_colours_unless_they_are_unwelcome(env: dict[str, str], coloured: bool) -> None:  # noqa: FBT001
    out = Terminal()
    Screen(out, env).event("arrived", "reminder-1", "3 ms late", "")
    assert ("\x1b[32m" in out.getvalue()) is coloured


def test_a_crowd_of_lines_is_thinned_and_the_summary_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.dev.demo.screen.time.monotonic", lambda: 100.0)
    out = io.StringIO()
    screen = Screen(out, {})
    for number in range(LINES_PER_SECOND + 5):
        screen.event("arrived", f"reminder-{number}", "3 ms late", "")
    screen.summary("sent 1")

    assert len(out.getvalue().splitlines()) == LINES_PER_SECOND + 1
    assert out.getvalue().endswith("── sent 1 · 5 lines left out\n")


def test_a_taken_port_is_reported_before_any_process_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        worker = DemoWorker(tmp_path / "w", taken.getsockname()[1], {}, temporary=True)
        with pytest.raises(WebPortTakenError, match="choose another port with --port"):
            worker.start()


def test_a_worker_that_ends_by_itself_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    log.write_text("".join(f"line {n}\n" for n in range(20)), "utf-8")

    said = str(WorkerDiedError(7, log))
    assert f"exit code 7. See its log {log}" in said
    assert said.endswith("line 19")
    assert "line 11\n" not in said
