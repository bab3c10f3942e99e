"""The glossary lists each term once, with an existing file, and no page uses another word for a term."""

import re

from tests.docs.generated import TERMS, TREE

#: Code and the addresses of links have names of their own.
_NO_PROSE = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)", re.DOTALL)


def test_each_term_is_there_once() -> None:
    names = [name.casefold() for term in TERMS for name in term["names"]]
    assert sorted(names) == sorted(set(names))


def test_each_term_names_files_that_are_there() -> None:
    missing = {file for term in TERMS for file in term["files"] if not (TREE / file).is_file()}
    assert not missing


def test_no_page_uses_another_word_for_a_term() -> None:
    avoided = [word for term in TERMS for word in term.get("avoid", ())]
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, avoided))})\b", re.IGNORECASE)
    pages = [TREE / "README.md", *(TREE / "docs").rglob("*.md")]
    found = {
        f"{page.relative_to(TREE)}: {word}"
        for page in pages
        for word in pattern.findall(_NO_PROSE.sub("", page.read_text("utf-8")))
    }
    assert not found
