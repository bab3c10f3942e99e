"""Argument parsers that report errors as sentences, and a help format."""

import argparse
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from punctual.cli.errors import WrongUse

Options = argparse.Namespace

_WIDTH: Final = 100
_COLUMN: Final = 28


class Help(argparse.RawDescriptionHelpFormatter):
    """Help of a fixed width, so that the reference is the same everywhere."""

    def __init__(self, prog: str, **_: Any) -> None:
        super().__init__(prog, max_help_position=_COLUMN, width=_WIDTH)


class Parser(argparse.ArgumentParser):
    """Parses the arguments of one command."""

    def __init__(self, prog: str, description: str) -> None:
        """Accept only unabbreviated options."""
        super().__init__(prog=prog, description=description, formatter_class=Help, allow_abbrev=False, add_help=False)
        if hasattr(self, "color"):  # Python 3.14 colours its help
            self.color = False
        self.add_argument("--help", action="help", help="show this help and exit")

    @property
    def actions(self) -> Sequence[argparse.Action]:
        """The arguments of the parser."""
        return self._actions

    def error(self, message: str) -> NoReturn:
        """Raise WrongUse with the parser's message."""
        raise WrongUse(f"{message}: see `{self.prog} --help`")
