"""SECURITY.md: each attack that was tried has the tests that the page names."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_each_test_that_is_named_is_there() -> None:
    named = _NAMED.findall((ROOT / "SECURITY.md").read_text("utf-8"))
    missing = [f"{file}::{name}" for file, name in named if not _has(ROOT / file, name)]
    assert len(named) > 40
    assert missing == []


def test_each_attack_names_one() -> None:
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    tried = text[text.index("### Attacks that we tried") : text.index("### Limits of the protection")]
    attacks = [line for line in tried.splitlines() if line.startswith("| ") and not line.startswith("| attack")]
    assert attacks
    assert [line for line in attacks if not _NAMED.search(line)] == []


def _has(file: Path, name: str) -> bool:
    return file.is_file() and re.search(rf"\bdef {name}\(", file.read_text("utf-8")) is not None
