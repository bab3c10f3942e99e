"""Counts habits that make English hard to read, per 1,000 words of the pages, the packages or the tests."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

#: A habit, the pattern that finds it, and how many there may be per 1,000 words.
HABITS = {
    "a clause with 'what' in place of a noun": (
        (
            r"\b[Ww]hat (?:is|was|are|were|has|had|comes|came|goes|waits|falls|fell|they|it|a|the|one|others|cannot|"
            r"could|does|did|stands|became|becomes|begins|remains)\b"
        ),
        0.5,
    ),
    "a clause with 'who' in place of a noun": (
        (
            r"(?:^|[.;:,] |\band |\bor |\bbut )(?:[Ww]hoever|[Ww]ho) (?:has|is|does|needs|may|can|cannot|reads|wants|"
            r"knows|runs|gets|takes|asks|sends|deletes|shows|had|are|writes|guesses)\b"
        ),
        0.02,
    ),
    "'for' in place of 'because'": (
        r", for (?:it|they|what|whoever|a|the|each|that|nobody|all|these|those|there) ",
        0.05,
    ),
    "a passive without an agent": (
        r"\b(?:is|are|was|were|be) (?:told|said|asked for|looked at|looked for|gone through|had|wanted)\b",
        0.2,
    ),
    "a pronoun in place of the noun": (
        r"\b(?:that one|those that|what of|of these|of which|of what|of it|of them|one that|the one of)\b",
        0.8,
    ),
    "'so many' in place of a maximum": (r"\bso (?:long|much|many|large|late|early|few|often)\b(?! as| that)", 0.1),
    "nobody, nothing": (r"\b(?:[Nn]obody|[Nn]othing)\b", 0.5),
    "words of this project alone": (
        r"\b(?:beside|anew|mend|mends|mended|kin|likewise|whence|alike|singly|perhaps|meanwhile|heaps? up|dear)\b",
        0.1,
    ),
}
YOU = r"\b[Yy]ou(?:r|rs)?\b"

#: The packages whose docstrings, comments and messages are counted.
PACKAGES = ("app", "pipeline", "punctual", "tables")
#: Shorter strings and comments are names, keys and the like.
_SENTENCE_WORDS = 4
#: A comment, on a line of its own or after code. A tokenizer would find it in several times the time.
_COMMENT = re.compile(r"(?:(?<=  )|^)#[: ].*")
_TEST_NAME = re.compile(r"def test_(\w+)")


def pages(tree: Path) -> list[Path]:
    """Return README and the other pages above docs, and all pages below it, without the changelog."""
    return sorted(path for path in [*tree.glob("*.md"), *tree.glob("docs/**/*.md")] if path.name != "CHANGELOG.md")


def lines(page: Path) -> Iterator[tuple[int, str]]:
    """Go through the prose of a page with its line numbers: no code, no tables, no headings, no targets of links."""
    fenced = False
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith(("#", "|", "<!--", "![")):
            text = re.sub(r"^\s*([-*>]|\d+\.) ", "", line)
            yield number, re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "X", text))


def words(page: Path) -> int:
    """Return the number of words of a page, tables and headings included, code left out."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return len(re.findall(r"[^\s|]*\w[^\s|]*", text))


def modules(tree: Path) -> list[Path]:
    """Return the modules of the packages."""
    return sorted(path for package in PACKAGES for path in (tree / package).rglob("*.py"))


def code_lines(module: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a module's docstrings, messages and comments, with their numbers; no code in backticks."""
    text = module.read_text("utf-8")
    quoted = set[int]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            quoted.update(range(node.lineno, node.end_lineno or node.lineno))
            if _is_sentence(node.value):
                for number, line in enumerate(node.value.splitlines(), node.lineno):
                    yield number, re.sub(r"`[^`]*`", "X", line)
    for number, line in enumerate(text.splitlines(), 1):
        comment = _COMMENT.search(line)
        if comment and number not in quoted and _is_sentence(comment[0]):
            yield number, comment[0].lstrip("#: ")


def modules_of_tests(tree: Path) -> list[Path]:
    """Return the modules of the tests."""
    return sorted((tree / "tests").rglob("*.py"))


def lines_of_tests(module: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a test module's docstrings, messages and comments, and the names of its tests as sentences."""
    yield from code_lines(module)
    for number, line in enumerate(module.read_text("utf-8").splitlines(), 1):
        if name := _TEST_NAME.search(line):
            yield number, name[1].replace("_", " ")


def _is_sentence(text: str) -> bool:
    return len(text.split()) >= _SENTENCE_WORDS


@cache
def rates(tree: Path) -> dict[str, float]:
    """Return the number of each habit per 1,000 words of all pages."""
    return _rates(line for page in pages(tree) for _, line in lines(page))


@cache
def code_rates(tree: Path) -> dict[str, float]:
    """Return the number of each habit per 1,000 words of the packages' docstrings, messages and comments."""
    return _rates(line for module in modules(tree) for _, line in code_lines(module))


@cache
def rates_of_tests(tree: Path) -> dict[str, float]:
    """Return the number of each habit per 1,000 words of the tests' names, docstrings, messages and comments."""
    return _rates(line for module in modules_of_tests(tree) for _, line in lines_of_tests(module))


def _rates(text: Iterable[str]) -> dict[str, float]:
    words, counts = 0, Counter[str]()
    for line in text:
        words += len(line.split())
        counts.update({habit: len(re.findall(pattern, line)) for habit, (pattern, _) in HABITS.items()})
    return {habit: 1000 * counts[habit] / words for habit in HABITS}


def address(tree: Path) -> float:
    """Return how often README, the tutorial and the how-tos say "you", per 1,000 words."""
    guides = [tree / "README.md", tree / "docs/tutorial.md", *tree.glob("docs/how-to/*.md")]
    text = [line for page in guides for _, line in lines(page)]
    return 1000 * sum(len(re.findall(YOU, line)) for line in text) / sum(len(line.split()) for line in text)
