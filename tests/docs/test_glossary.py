"""The glossary lists each term once, with an existing file, and no page uses another word for a term.

GLOSSARY=save writes the page, and the page with the terms of the code.
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
_CODE_PAGE = _TREE / "docs/decisions/terms.md"
_HEAD = """# Glossary

The terms of the documentation. [Terms of the code](../decisions/terms.md) has the others, and the files.
"""
_CODE_HEAD = """# Terms of the code

The terms that only the code uses, each with the file to read first, and at the end the files for the terms of the
[glossary](../explanation/glossary.md). [How it works](../explanation/how-it-works.md) puts them together.
"""
#: Code and the addresses of links have names of their own.
_NO_PROSE = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)", re.DOTALL)


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def _names(term: dict[str, Any]) -> str:
    return ", ".join(f"**{name}**" for name in term["names"])


def _files(term: dict[str, Any]) -> str:
    return ", ".join(f"`{file}`" for file in term["files"])


def _page() -> str:
    parts = [_HEAD]
    for section in _SECTIONS:
        rows = [_cells(_names(term), term["meaning"]) for term in section["term"] if not term.get("code")]
        if rows:
            parts += [f"\n## {section['title']}\n\n| term | meaning |\n|---|---|\n", *rows]
    return "".join(parts)


def _code_page() -> str:
    parts = [_CODE_HEAD]
    for section in _SECTIONS:
        rows = [_cells(_names(term), term["meaning"], _files(term)) for term in section["term"] if term.get("code")]
        if rows:
            parts += [f"\n## {section['title']}\n\n| term | meaning | file |\n|---|---|---|\n", *rows]
    others = [_cells(_names(term), _files(term)) for term in _TERMS if not term.get("code")]
    return "".join([*parts, "\n## Terms of the glossary\n\n| term | file |\n|---|---|\n", *others])


def test_the_pages_are_the_list_of_terms() -> None:
    if os.environ.get("GLOSSARY") == "save":
        _PAGE.write_text(_page(), "utf-8")
        _CODE_PAGE.write_text(_code_page(), "utf-8")

    assert (_PAGE.read_text("utf-8"), _CODE_PAGE.read_text("utf-8")) == (_page(), _code_page())


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
