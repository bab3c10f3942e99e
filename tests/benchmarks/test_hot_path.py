"""The hot path without Kafka: its figures, and whether it distinguishes trees that differ."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.errors import CommitUnusable, ProcessFailed
from benchmarks.hot_path import dialects, report
from benchmarks.hot_path.options import Options, Sizes, parse
from benchmarks.hot_path.ratio import Ratio, ratio
from benchmarks.hot_path.stages import STAGES
from benchmarks.hot_path.tree import ROOT, Tree, exported
from benchmarks.hot_path.turns import Turns, take_turns
from punctual.contract.dialects.dialects import DIALECTS, dialect_of
from tests.harness.waiting import PROGRAM_S
from tests.punctual.contract.records import NOW, FakeRecord

pytestmark = pytest.mark.slow

TINY = Sizes(pairs=1, rounds=6, tries=2, messages=500)
#: Makes a stage of a copy take fifty microseconds more for each message, more than a way takes on a busy machine.
SLOWED = """

_read = Ingest.read


def _slowed(self, step, records, *more):
    until = __import__("time").process_time() + len(records) * 50e-6
    while __import__("time").process_time() < until:
        pass
    return _read(self, step, records, *more)


Ingest.read = _slowed
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of this tree's packages, to be changed."""
    path = tmp_path / "copy"
    for name in ("app", "tables"):
        shutil.copytree(ROOT / name, path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return path


def test_each_stage_of_both_ways_is_measured(tmp_path: Path) -> None:
    turns = take_turns([Tree(ROOT)], tmp_path, Sizes(pairs=1, rounds=1, tries=1, messages=500))

    [[cost]] = turns.rounds
    ways_in, ways_out = (
        {"decode", "take", "apply", "journal", "rest"},
        {"due", "batch", "settle", "apply", "journal", "rest"},
    )
    assert ways_in | ways_out == {*STAGES, "rest"}
    assert cost.keys() == {"in", "out", *(f"in {it}" for it in ways_in), *(f"out {it}" for it in ways_out)}
    assert all(us > 0 for us in cost.values())
    for way in report.WAYS:
        assert cost[way] == pytest.approx(sum(us for name, us in cost.items() if name.startswith(f"{way} ")))
    assert list(tmp_path.rglob("*.sst")) == []


def test_a_slower_tree_is_reported_by_figure_and_stage(copy: Path, tmp_path: Path) -> None:
    with (copy / "app/engine/ingest/ingest.py").open("a") as code:
        code.write(SLOWED)

    turns = take_turns([Tree(copy), Tree(ROOT)], tmp_path, TINY)

    slower = {name for name in turns.rounds[0][0] if (found := report.ratio_of(turns, name)) and found.low > 1.2}
    assert {"in", "in decode"} <= slower
    assert "out" not in slower


def test_a_stage_that_a_tree_does_not_have_is_left_out_and_counts_as_the_rest(copy: Path, tmp_path: Path) -> None:
    builder, ingest = copy / "app/engine/partition/step_builder.py", copy / "app/engine/ingest/ingest.py"
    builder.write_text(builder.read_text("utf-8").replace("_ingest.read(", "_ingest.decoded("), "utf-8")
    ingest.write_text(
        (ingest.read_text("utf-8") + SLOWED)
        .replace("def read(", "def decoded(")
        .replace("Ingest.read", "Ingest.decoded"),
        "utf-8",
    )

    turns = take_turns([Tree(copy), Tree(ROOT)], tmp_path, Sizes(pairs=1, rounds=1, tries=2, messages=500))

    [[now, then]] = turns.rounds
    assert "in decode" not in now
    assert now["in rest"] > then["in rest"]
    [line] = [line for line in report.table(turns).splitlines() if line.startswith("in decode")]
    assert line.split()[2:] == ["-", "-", f"{then['in decode']:.2f}", "-"]


def test_a_tree_that_does_not_run_says_why(copy: Path, tmp_path: Path) -> None:
    (copy / "app/engine/due/due_loop.py").write_text("raise RuntimeError('nothing is due')", "utf-8")

    with pytest.raises(ProcessFailed, match="nothing is due"):
        take_turns([Tree(copy)], tmp_path, TINY)


def test_this_tree_is_compared_with_a_commit_and_no_files_are_left_behind(tmp_path: Path) -> None:
    run = hot_path(tmp_path, "--against", "HEAD", "--limit", "-90", *small())

    assert run.returncode == 0, run.stderr
    assert "beside HEAD" in run.stdout
    assert "95 % between" in run.stdout
    assert "Fewer than 6 rounds" in run.stderr
    assert [*tmp_path.iterdir()] == []


def test_more_cpu_than_the_limit_allows_is_an_error(tmp_path: Path) -> None:
    run = hot_path(tmp_path, "--against", "HEAD", "--limit", "-90", *small(rounds=6))

    assert run.returncode == 1
    assert "a message's way in needs more than -90 % more CPU" in run.stderr


def hot_path(tmp_path: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "benchmarks.hot_path", *arguments]
    environment = {"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PROGRAM_S, check=False
    )


def small(rounds: int = 1) -> list[str]:
    return ["--pairs", "1", "--rounds", str(rounds), "--tries", "1", "--messages", "200"]


def test_a_missing_commit_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CommitUnusable, match="no-such-commit"):
        exported("no-such-commit", tmp_path)


def test_each_option_and_each_stage_is_documented(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    with pytest.raises(SystemExit):
        parse(["--help"])

    options = set(re.findall(r"--[a-z]+", capsys.readouterr().out)) - {"--help"}

    assert options >= {"--against", "--limit", "--pairs"}
    assert all(f"`{name}" in text for name in (*options, *STAGES))


def test_by_default_this_tree_alone_is_measured() -> None:
    assert parse([]) == Options(None, 2.0, Sizes())


@pytest.mark.parametrize("text", ["0", "many"])
def test_a_size_is_a_whole_number(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--rounds", text])
    assert "--rounds" in capsys.readouterr().err


def test_a_ratio_is_the_median_and_lies_between_order_statistics() -> None:
    # Of ten values, the bounds for 95 % are the second and the ninth (tables of the sign test).
    then = [2.0] * 10
    assert ratio([1, 9, 3, 4, 2, 6, 7, 8, 5, 200], then) == Ratio(2.75, 1.0, 4.5)


def test_few_rounds_are_bounded_by_their_least_and_most() -> None:
    assert ratio([3.0, 1.0, 2.0], [1.0, 1.0, 1.0]) == Ratio(2.0, 1.0, 3.0)


def test_only_rounds_that_both_trees_have_measured_count() -> None:
    turns = Turns([[{"in": 3.0}, {"in": 2.0}], [{"in": 3.0}, {}]])
    assert report.ratio_of(turns, "in") == Ratio(1.5, 1.5, 1.5)
    assert report.ratio_of(turns, "out") is None


def test_requests_of_other_dialects_can_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dialects.DIALECTS.keys() < DIALECTS.keys()
    assert dialects.request_maker() is None
    for name, (setting, _) in dialects.DIALECTS.items():
        monkeypatch.setenv(dialects.DIALECT, name)
        monkeypatch.setenv("DELAY_INPUTS", "")
        ask = dialects.request_maker()
        assert ask is not None
        headers, key, value = ask("orders", NOW + 3_600_000, b"order-7", b"v" * 200)
        asked = dialect_of(setting).decode(FakeRecord(headers, key, value, topic=dialects.INPUT))
        assert (asked.to, asked.due_ms, len(asked.value or b"")) == ("orders", NOW + 3_600_000, 200)
