"""The files that are generated from the code. `make format` writes them: `python -m tests.docs.generated`."""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from app.serve.openapi.document import document
from deploy.monitoring import generate
from punctual import command
from punctual.cli.main import parser_of
from punctual.cli.registry import COMMANDS

TREE = Path(__file__).parents[2]
CLI = Path("docs/reference/cli.md")
#: The commands' help in the reference of the command line; the rest of the page is written by hand.
HELP = re.compile(r"(?<=^## Commands\n).*", re.MULTILINE | re.DOTALL)
_SECTIONS = tomllib.loads((TREE / "docs/site/glossary.toml").read_text("utf-8"))["section"]
#: The terms of both glossaries.
TERMS = [term for section in _SECTIONS for term in section["term"]]
_GLOSSARY_HEAD = """# Glossary

The terms of the documentation. [Terms of the code](../decisions/terms.md) has the others, and the files.
"""
_CODE_HEAD = """# Terms of the code

The terms that only the code uses, each with the file to read first, and at the end the files for the terms of the
[glossary](../explanation/glossary.md). [How it works](../explanation/how-it-works.md) puts them together.
"""


def files() -> dict[Path, str]:
    """Return the text of each generated file, by its path in this tree."""
    monitoring = {
        (place / name).relative_to(TREE): text for place in generate.PLACES for name, text in generate.files().items()
    }
    return {
        CLI: HELP.sub(lambda _: _help(), (TREE / CLI).read_text("utf-8")),
        Path("docs/explanation/glossary.md"): _glossary(),
        Path("docs/decisions/terms.md"): _terms_of_the_code(),
        Path("docs/reference/openapi.yaml"): yaml.safe_dump(document(), sort_keys=False, allow_unicode=True, width=120),
        **monitoring,
    }


def main() -> None:
    """Write the files that are out of date, and print their paths."""
    for path, text in files().items():
        if (TREE / path).read_text("utf-8") != text:
            (TREE / path).write_text(text, "utf-8")
            sys.stdout.write(f"{path}\n")


def _help() -> str:
    parts = [f"\n```text\n{command.USAGE}\n```\n"]
    parts += [f"\n### {one.name}\n\n```text\n{parser_of(one).format_help()}```\n" for one in COMMANDS]
    return "".join(parts)


def _glossary() -> str:
    parts = [_GLOSSARY_HEAD]
    for section in _SECTIONS:
        rows = [_row(_names(term), term["meaning"]) for term in section["term"] if not term.get("code")]
        if rows:
            parts += [f"\n## {section['title']}\n\n| term | meaning |\n|---|---|\n", *rows]
    return "".join(parts)


def _terms_of_the_code() -> str:
    parts = [_CODE_HEAD]
    for section in _SECTIONS:
        rows = [_row(_names(term), term["meaning"], _files(term)) for term in section["term"] if term.get("code")]
        if rows:
            parts += [f"\n## {section['title']}\n\n| term | meaning | file |\n|---|---|---|\n", *rows]
    others = [_row(_names(term), _files(term)) for term in TERMS if not term.get("code")]
    return "".join([*parts, "\n## Terms of the glossary\n\n| term | file |\n|---|---|\n", *others])


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def _names(term: dict[str, Any]) -> str:
    return ", ".join(f"**{name}**" for name in term["names"])


def _files(term: dict[str, Any]) -> str:
    return ", ".join(f"`{file}`" for file in term["files"])


if __name__ == "__main__":
    main()
