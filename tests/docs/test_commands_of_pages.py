"""The `punctual` commands in the documents exist, and accept the options that the documents show."""

import re

import pytest

from punctual.cli.main import parser_of
from punctual.cli.registry import COMMANDS
from tests.harness.worker import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: In the text, and at the beginning of a line, of a subcommand or of a stage of a pipe in a block.
NAMED = re.compile(r"(?:`|^ *|\$\(|\| )punctual ([a-z][a-z-]*)([^\n`]*)", re.MULTILINE)
#: Those that start something else, as `faust -A app` does, and words of the format of encrypted values.
OTHERS = {"worker", "doctor", "repartition", "access", "password", "token", "broker", "encryption"}


def named() -> list[tuple[str, str, str]]:
    """Return page, command and arguments of each."""
    texts = ((page.relative_to(ROOT).as_posix(), page.read_text("utf-8")) for page in PAGES)
    return [(name, *found) for name, text in texts for found in NAMED.findall(text)]


def test_there_are_many() -> None:
    assert {command for _, command, _ in named()} >= {"list", "cancel", "export", "import", "dead-letters"}


@pytest.mark.parametrize("page", sorted({page for page, _, _ in named()}))
def test_they_are_there_with_their_options(page: str) -> None:
    options = {one.name: parser_of(one).format_help() for one in COMMANDS}
    for name, command, arguments in named():
        if name == page and command not in OTHERS:
            assert command in options, f"{page}: punctual {command}"
            given = re.findall(r"(?<= )--[a-z-]+", arguments.partition("|")[0])
            assert not [one for one in given if one not in options[command]], f"{page}: punctual {command}{arguments}"
