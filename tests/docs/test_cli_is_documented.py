"""docs/reference/cli.md has the help of every command, and every exit code; CLI_HELP=save writes the help there."""

import os
import re
from pathlib import Path

from punctual import command
from punctual.cli.exits import Exit
from punctual.cli.main import parser_of
from punctual.cli.registry import COMMANDS

PAGE = Path(__file__).parents[2] / "docs/reference/cli.md"
BLOCKS = re.compile(r"(?<=^## Commands\n).*", re.MULTILINE | re.DOTALL)


def helps() -> str:
    parts = [f"\n```text\n{command.USAGE}\n```\n"]
    parts += [f"\n### {one.name}\n\n```text\n{parser_of(one).format_help()}```\n" for one in COMMANDS]
    return "".join(parts)


def test_the_help_of_every_command_is_that_of_the_reference() -> None:
    if os.environ.get("CLI_HELP") == "save":
        PAGE.write_text(BLOCKS.sub(lambda _: helps(), PAGE.read_text("utf-8")), "utf-8")

    [written] = BLOCKS.findall(PAGE.read_text("utf-8"))
    assert written == helps()


def test_every_exit_code_is_documented() -> None:
    documented = re.findall(r"^\| (\d+) \|", PAGE.read_text("utf-8"), re.MULTILINE)

    assert [int(code) for code in documented] == [code.value for code in Exit]
