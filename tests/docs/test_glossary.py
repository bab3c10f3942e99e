"""Each word of the glossary names the file that it is about, and that file is there."""

import re
from pathlib import Path

_TREE = Path(__file__).parents[2]
_WORD = re.compile(r"^\| \*\*(.+?)\*\*.* \| .+ \| (`.+`) \|$", re.MULTILINE)


def test_each_word_names_a_file_that_is_there() -> None:
    page = (_TREE / "docs/explanation/glossary.md").read_text()
    words = _WORD.findall(page)

    assert len(words) == page.count("\n| **")
    missing = {word for word, files in words for file in re.findall(r"`(.+?)`", files) if not (_TREE / file).is_file()}
    assert not missing
