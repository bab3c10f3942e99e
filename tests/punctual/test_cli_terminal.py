"""The output of a command moves no cursor, and changes neither terminal nor writing direction, in any form."""

import io
import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctual.cli import terminal
from punctual.cli.table import Column, Table, write_json

ODD = "\x1b[2J\x9b2J\u202e\u2066\u200f\u2028\u0085\r\x00\U000e0001\x7f\ufeff"
TEXTS = st.text() | st.text(st.sampled_from(ODD + 'a"\\'))


def is_harmless(line: str) -> bool:
    return all(char == " " or unicodedata.category(char)[0] not in "CZ" for char in line)


@given(TEXTS)
def test_json_says_the_same_and_is_harmless(text: str) -> None:
    said = json.dumps({text: [text]}, ensure_ascii=False)

    shown = terminal.legible_json(said)

    assert json.loads(shown) == {text: [text]}
    assert is_harmless(shown)


@given(TEXTS)
def test_a_text_is_harmless_and_each_character_is_itself_or_its_escape(text: str) -> None:
    shown = terminal.legible(text)
    assert is_harmless(shown)
    assert shown == "".join(char if is_harmless(char) else terminal._escaped(char) for char in text)


def test_json_in_lines_stays_in_lines() -> None:
    assert terminal.legible_json('{\n  "a": "\x9b"\n}') == '{\n  "a": "\\u009b"\n}'


def test_rows_and_sentences_are_harmless_in_each_form(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"id": ODD}
    write_json(row)
    for form in ("json", "table"):
        Table([Column("ID", lambda row: row["id"])], form).add([row])
    terminal.say(f"one\n{ODD}")

    out, err = capsys.readouterr()
    assert json.loads(out.split("\n")[0]) == row
    assert all(map(is_harmless, [*out.split("\n"), *err.split("\n")]))
    assert err.startswith("one\n")


class Terminal(io.StringIO):
    """Standard output that somebody looks at."""

    buffer = io.BytesIO()

    def isatty(self) -> bool:
        return True


def test_bytes_are_harmless_at_a_terminal_and_as_they_are_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    raw = b"one\ntwo\x1b[2J\xff\xc2\x9b"
    terminal.show_bytes(raw)
    assert capfdbinary.readouterr().out == raw

    shown = Terminal()
    monkeypatch.setattr("sys.stdout", shown)
    terminal.show_bytes(raw)
    assert shown.getvalue() == "one\ntwo\\x1b[2J\\xff\\x9b\n"
