"""The glossary is the list of terms, each once and with a file that is there, and no page uses another word for one.

GLOSSARY=save writes the page.
"""

import os
import re
import tomllib
from pathlib import Path
from typing import Any

_TREE = Path(__file__).parents[2]
_PAGE = _TREE / "docs/explanation/glossary.md"
_SECTIONS = tomllib.loads((_TREE / "docs/site/glossary.toml").read_text("utf-8"))["section"]
_TERMS = [term for section in _SECTIONS for term in section["term"]]
_HEAD = """# Glossary

The terms of the documentation and of the code, each with the file to read first. [How it works](how-it-works.md) puts
them together.
"""
#: Code and the addresses of links have names of their own.
_NO_PROSE = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)", re.DOTALL)


def _row(term: dict[str, Any]) -> str:
    names, files = (", ".join(map(form.format, term[key])) for form, key in (("**{}**", "names"), ("`{}`", "files")))
    return f"| {names} | {term['meaning']} | {files} |\n"


def _page() -> str:
    parts = [
        f"\n## {section['title']}\n\n| term | meaning | file |\n|---|---|---|\n{''.join(map(_row, section['term']))}"
        for section in _SECTIONS
    ]
    return _HEAD + "".join(parts)


def test_the_page_is_the_list_of_terms() -> None:
    if os.environ.get("GLOSSARY") == "save":
        _PAGE.write_text(_page(), "utf-8")

    assert _PAGE.read_text("utf-8") == _page()


def test_each_term_is_there_once() -> None:
    names = [name.casefold() for term in _TERMS for name in term["names"]]
    assert sorted(names) == sorted(set(names))


def test_each_term_names_files_that_are_there() -> None:
    missing = {file for term in _TERMS for file in term["files"] if not (_TREE / file).is_file()}
    assert not missing


def test_no_page_uses_another_word_for_a_term() -> None:
    avoided = [word for term in _TERMS for word in term.get("avoid", ())]
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, avoided))})\b", re.IGNORECASE)
    pages = [_TREE / "README.md", *(_TREE / "docs").rglob("*.md")]
    found = {
        f"{page.relative_to(_TREE)}: {word}"
        for page in pages
        for word in pattern.findall(_NO_PROSE.sub("", page.read_text("utf-8")))
    }
    assert not found
