"""Runs a command: finds it, parses its arguments, and turns errors into a sentence and an exit code."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from punctual.cli.errors import CommandError, WrongUse
from punctual.cli.exits import Exit
from punctual.cli.output import with_output
from punctual.cli.parser import Options, Parser
from punctual.cli.registry import COMMANDS, CliCommand, find
from punctual.cli.terminal import legible, say
from punctual.cli.times import one_now

PROG: Final = "punctual"


def run(name: str, arguments: Sequence[str], prog: str = PROG) -> int:
    """Run the command `name` with its arguments, and return the exit code."""
    command = find(name)
    if command is None:
        say(f"{prog}: there is no command {legible(name[:64])!r}{_meant(name)}: see `{prog} --help`")
        return Exit.WRONG_USE
    return with_output(lambda: _run(command, arguments, prog))


def _run(command: CliCommand, arguments: Sequence[str], prog: str) -> int:
    try:
        _check_utf_8(arguments)
        return command.load().run(_read(parser_of(command, prog), arguments))
    except SystemExit as end:  # argparse raises this after showing its help
        return int(end.code or 0)
    except CommandError as error:
        say(f"{prog} {command.name}: {legible(str(error))}")
        return error.code


def _check_utf_8(arguments: Sequence[str]) -> None:
    """Raise WrongUse if an argument is not UTF-8: Python has its bytes as surrogates (PEP 383)."""
    for number, text in enumerate(arguments, 1):
        if any("\ud800" <= char <= "\udfff" for char in text):
            raise WrongUse(f"argument {number}, {text[:64]!r}, is not UTF-8. IDs, topics and texts must be UTF-8")


def _read(parser: Parser, arguments: Sequence[str]) -> Options:
    """Return the parsed arguments; calling `anew` of the result parses them again at that time."""
    with one_now():
        options = parser.parse_args(arguments)
    options.anew = partial(_read, parser, arguments)
    return options


def parser_of(command: CliCommand, prog: str = PROG) -> Parser:
    """Return the parser of a command."""
    parser = Parser(f"{prog} {command.name}", f"{command.summary[:1].upper()}{command.summary[1:]}.")
    command.load().add_arguments(parser)
    return parser


def overview() -> str:
    """Return a list of the commands, one line each."""
    width = max(len(command.name) for command in COMMANDS)
    return "\n".join(f"  {command.name.ljust(width)}  {command.summary}" for command in COMMANDS)


def _meant(name: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - few mistype

    close = get_close_matches(name, [command.name for command in COMMANDS], 1)
    return f" (did you mean {close[0]}?)" if close else ""
