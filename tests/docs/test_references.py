"""References in documents and code are valid: to files of this tree, headings of the documents, decisions."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.screenshots import MAX_BYTES

_TREE = Path(__file__).parents[2]
_CODE = ("app", "benchmarks", "pipeline", "punctual", "tables", "tests")
_PAGES = [*_TREE.glob("*.md"), *(_TREE / "docs").rglob("*.md")]
_FILE = re.compile(rf"(?<![\w./-])(?:{'|'.join(_CODE)})/[\w/]+\.py")
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
_PICTURE = re.compile(r"!\[([^\]]*)\]\((?!https?:)([^)\s]+)\)")
_HEADING = re.compile(r"\b([\w-]+\.md)#([\w-]+)")
_DECISION = re.compile(r"docs/decisions/(\d{4})")


def _anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _sources() -> Iterator[tuple[Path, str]]:
    for package in _CODE:
        for path in (_TREE / package).rglob("*.py"):
            yield path.relative_to(_TREE), path.read_text("utf-8")


def test_files_that_documents_name_are_there() -> None:
    named = {(page.name, name) for page in _PAGES for name in _FILE.findall(page.read_text("utf-8"))}

    assert named
    assert not {(page, name) for page, name in named if not (_TREE / name).is_file()}


def test_links_between_documents_lead_somewhere() -> None:
    broken = []
    for page in _PAGES:
        for target, anchor in _LINK.findall(page.read_text("utf-8")):
            path = page.parent / target if target else page
            if not path.exists() or (anchor and anchor not in _anchors(path)):
                broken.append((page.name, target, anchor))

    assert not broken


def test_every_picture_is_shown_with_a_description_and_loads_fast() -> None:
    shown = {
        (page.parent / target).resolve(): alt
        for page in _PAGES
        for alt, target in _PICTURE.findall(page.read_text("utf-8"))
    }
    there = {path for ending in ("png", "svg") for path in (_TREE / "docs").rglob(f"*.{ending}")}

    assert set(shown) == there
    assert not [path.name for path, alt in shown.items() if len(alt.split()) < 5]
    assert not [path.name for path in there if path.stat().st_size > MAX_BYTES]


def test_headings_that_code_refers_to_are_there() -> None:
    anchors = {page.name: _anchors(page) for page in _PAGES}
    found = [(path, *pair) for path, text in _sources() for pair in _HEADING.findall(text)]

    assert found
    assert not [one for one in found if one[2] not in anchors.get(one[1], set())]


def test_decisions_that_code_refers_to_are_there() -> None:
    there = {page.name[:4] for page in (_TREE / "docs/decisions").glob("*.md")}

    assert not [(path, one) for path, text in _sources() for one in _DECISION.findall(text) if one not in there]


def test_the_list_of_decisions_has_every_decision_by_its_name() -> None:
    directory = _TREE / "docs/decisions"
    titles = {
        page.name: page.read_text("utf-8").partition("\n")[0].partition(". ")[2] for page in directory.glob("0*.md")
    }

    listed = re.findall(r"^- \[\d{4}\]\((\S+)\) (.+)$", (directory / "index.md").read_text("utf-8"), re.MULTILINE)
    assert dict(listed) == titles
    assert listed == sorted(listed)
