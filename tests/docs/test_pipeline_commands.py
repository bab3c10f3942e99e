"""The pipeline accepts its commands in the documents."""

import re
import shlex
from pathlib import Path

import pytest

from pipeline.__main__ import parser
from pipeline.jobs import JOBS

_TREE = Path(__file__).parents[2]
_PAGES = [_TREE / "README.md", *sorted((_TREE / "docs").rglob("*.md"))]
_COMMAND = re.compile(r"python -m pipeline +((?:\\\n|[^\n])+)")


def commands() -> list[tuple[str, str]]:
    """Return page and command line of all that are meant whole."""
    found = []
    for page in _PAGES:
        blocks = re.findall(r"^```(?:sh|cron)\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
        lines = [line for block in blocks for line in _COMMAND.findall(block)]
        found += [(page.name, line.replace("\\\n", " ")) for line in lines if "…" not in line]
    return found


def test_there_are_some() -> None:
    assert {words.split()[0] for _, words in commands()} == set(JOBS)


@pytest.mark.parametrize(("page", "words"), commands())
def test_a_command_is_understood(page: str, words: str) -> None:
    words = re.sub(r"\$\([^)]*\)", "2027-01-31", words.partition("||")[0])
    given = shlex.split(words, comments=True)
    try:
        parser(JOBS).parse_args(given)
    except SystemExit as error:
        pytest.fail(f"{page}: {words} ends with code {error.code}")


@pytest.mark.parametrize("page", ["bulk.md", "cold-tier.md", "ledger.md"])
def test_the_archive_of_the_pipeline_has_every_module_that_it_imports(page: str) -> None:
    imported = set()
    for module in (_TREE / "pipeline").rglob("*.py"):
        imported |= set(re.findall(r"^from (\w+)", module.read_text("utf-8"), re.MULTILINE))
    ours = {path.name for path in _TREE.iterdir() if (path / "__init__.py").is_file()} - {"tests", "benchmarks"}
    [said] = re.findall(
        r"(?:# app/.*zipped|needs the packages .* too)", (_TREE / "docs" / "how-to" / page).read_text("utf-8")
    )

    assert set(re.findall(r"\b(app|pipeline|punctual|tables)\b", said)) == (imported & ours) | {"pipeline"}
