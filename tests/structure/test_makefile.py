"""Plain `make` explains every target in a sentence, and `NAME=…` accepts each listed name."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.long_runs import RUNS

_TREE = Path(__file__).parents[2]
_MOST_TARGETS = 14
#: A rule's name; `.venv/…` and the stamps are files.
_RULE = re.compile(r"^(\w[\w-]*):(?!=)", re.MULTILINE)
_MENTION = re.compile(r"`make ([a-z][a-z-]*)(?: NAME=(\w+))?")
#: In a block of commands.
_COMMAND = re.compile(r"^(?:[A-Z_]+=\S+ )*make ([a-z][a-z-]*)(?: NAME=(\w+))?", re.MULTILINE)
#: Values of NAME that are not listed one by one.
_FREE = {"topic", "run"}


def _make(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--no-print-directory", *arguments]  # within `make check`, it would name its directory
    return subprocess.run(command, cwd=_TREE, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def explained() -> dict[str, str]:
    """Targets and their explanations, as plain `make` prints them."""
    explanations: dict[str, str] = {}
    target = ""
    for line in _make().stdout.splitlines():
        if named := re.match(r"make ([\w-]+) +", line):
            target = named[1]
            explanations[target] = line[named.end() :]
        else:
            explanations[target] += f"\n{line.strip()}"
    return explanations


def test_plain_make_explains_every_target_in_a_sentence(explained: dict[str, str]) -> None:
    targets = set(_RULE.findall((_TREE / "Makefile").read_text("utf-8"))) - {"help"}

    assert targets == set(explained)
    assert len(targets) <= _MOST_TARGETS
    for sentence in (text.partition("\n")[0] for text in explained.values()):
        assert re.fullmatch(r"[A-Z].+(?:\.|\)|NAME=\w+)", sentence)
        assert len(sentence.split()) >= 4


def test_names_that_help_lists_are_known(explained: dict[str, str]) -> None:
    for target, runs in RUNS.items():
        listed = re.findall(r"NAME=([\w, ]+):", explained[target])[0]
        assert set(listed.split(", ")) == set(runs)


def test_files_of_long_runs_exist() -> None:
    arguments = [one for runs in RUNS.values() for run in runs.values() for one in run.command]

    assert not [one for one in arguments if one.startswith("tests/") and not (_TREE / one).exists()]


def test_long_runs_take_variables_from_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        started.append(command[2:])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setenv("SEEDS", "7")
    monkeypatch.delenv("FIRST", raising=False)

    assert RUNS["test"]["simulation"].start() == 0
    assert started == [["tests.simulation", "--seeds", "7", "--first", "0"]]


@pytest.mark.parametrize("target", ["docs", "bench", "build"])
def test_an_unknown_name_is_an_error(target: str) -> None:
    stopped = _make("-n", "-o", "install", target, "NAME=nonsense")

    assert stopped.returncode == 2
    assert f"NAME=nonsense is not known to `make {target}`" in stopped.stderr


def test_a_name_of_the_environment_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "nonsense")

    monkeypatch.setenv("ONLY", "nonsense")

    assert "nonsense" not in _make("-n", "check").stdout
    assert _make("-n", "clean").returncode == 0
    assert "nonsense" not in _make("-n", "topic").stdout


def test_targets_that_texts_mention_exist(explained: dict[str, str]) -> None:
    listing = subprocess.run(["git", "ls-files"], cwd=_TREE, capture_output=True, text=True, check=True)  # noqa: S607
    files = listing.stdout.split("\n")
    texts = {
        name: (_TREE / name).read_text("utf-8")
        for name in files
        if re.search(r"\.(py|md|toml|yml|yaml)$|\.ci/run", name)
    }
    wrong = [
        (file, target, name)
        for file, text in texts.items()
        if file != "CHANGELOG.md"
        for target, name in _MENTION.findall(text) + (_COMMAND.findall(text) if file.endswith(".md") else [])
        if target not in explained or (name and target not in _FREE and name not in explained[target])
    ]

    assert len(texts) > 100
    assert not wrong
