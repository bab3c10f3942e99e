"""Pages, docstrings, comments and messages are written for readers who see them for the first time."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.docs import prose
from tests.harness.worker import ROOT

#: Pages of users' documentation: not the decisions, which are for those who change the code.
_GUIDES = ("README.md", "docs/tutorial.md", "docs/how-to/*.md", "docs/reference/*.md", "docs/explanation/*.md")
_MOST_WORDS, _MOST_OUTSIDE_TABLES = 60_000, 45_000
_README_LINES = 130


@pytest.mark.parametrize("habit", prose.HABITS)
def test_no_habit_is_frequent(habit: str) -> None:
    goal, rate = prose.HABITS[habit][1], prose.rates(ROOT)[habit]
    assert rate <= goal, _places(habit, rate, prose.pages(ROOT), prose.lines)


@pytest.mark.parametrize("habit", prose.HABITS)
def test_no_habit_is_frequent_in_the_packages(habit: str) -> None:
    goal, rate = prose.HABITS[habit][1], prose.code_rates(ROOT)[habit]
    assert rate <= goal, _places(habit, rate, prose.modules(ROOT), prose.code_lines)


@pytest.mark.parametrize("habit", prose.HABITS)
def test_no_habit_is_frequent_in_the_tests(habit: str) -> None:
    goal, rate = prose.HABITS[habit][1], prose.rates_of_tests(ROOT)[habit]
    assert rate <= goal, _places(habit, rate, prose.modules_of_tests(ROOT), prose.lines_of_tests)


def _places(habit: str, rate: float, files: list[Path], lines: Callable[[Path], Iterable[tuple[int, str]]]) -> str:
    """Return a message with the rate of a habit, its goal, and the first lines that have it."""
    pattern, goal = prose.HABITS[habit]
    matches = [
        f"{file.relative_to(ROOT)}:{number}: {line}"
        for file in files
        for number, line in lines(file)
        if re.search(pattern, line)
    ]
    return f"{habit}: {rate:.2f} per 1,000 words, {goal} at most\n" + "\n".join(matches[:40])


def test_guides_talk_to_their_reader() -> None:
    assert prose.address(ROOT) >= 15


def test_the_readme_and_the_documents_are_short() -> None:
    pages = [page for pattern in _GUIDES for page in ROOT.glob(pattern)]
    words = sum(prose.words(page) for page in pages)
    outside_tables = sum(len(line.split()) for page in pages for _, line in prose.lines(page))
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= _README_LINES
    assert (words <= _MOST_WORDS, outside_tables <= _MOST_OUTSIDE_TABLES) == (True, True), (words, outside_tables)


def test_a_habit_is_counted(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(
        "What is due is sent, for it waits.\n\n```\nwhat is in a block\n```\n`what is`\n", "utf-8"
    )
    rates = prose.rates(tmp_path)
    assert [rates[habit] > 0 for habit in list(prose.HABITS)[:3]] == [True, False, True]


def test_a_habit_of_a_module_is_counted(tmp_path: Path) -> None:
    module = tmp_path / "tables/module.py"
    module.parent.mkdir()
    module.write_text(
        '"""What is due is sent."""\n'
        "# This is sent, for it waits.\n"
        'message = f"Nobody has read this {module}."  # nobody\n'
        "nobody = `nothing`\n".replace("`", '"'),
        "utf-8",
    )
    rates = prose.code_rates(tmp_path)
    assert [rates[habit] > 0 for habit in prose.HABITS] == [True, False, True, False, False, False, True, False]
    assert [number for number, _ in prose.code_lines(module)] == [1, 3, 2]


def test_a_habit_in_the_name_of_a_test_is_counted(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_module.py").write_text("def test_what_is_due_is_sent() -> None: ...\n", "utf-8")

    assert prose.rates_of_tests(tmp_path)["a clause with 'what' in place of a noun"] > 0
