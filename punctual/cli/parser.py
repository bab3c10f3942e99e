"""Parsers of arguments that answer with sentences, and keep what is long out of the way."""

import argparse
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from punctual.cli.errors import WrongUse

Options = argparse.Namespace

_WIDTH: Final = 100
_COLUMN: Final = 28


class Help(argparse.RawDescriptionHelpFormatter):
    """Help of one width, so that the reference has the same."""

    def __init__(self, prog: str, **_: Any) -> None:
        super().__init__(prog, max_help_position=_COLUMN, width=_WIDTH)


class Parser(argparse.ArgumentParser):
    """Takes the arguments of one command."""

    def __init__(self, prog: str, description: str) -> None:
        """Take options by their whole names alone."""
        super().__init__(prog=prog, description=description, formatter_class=Help, allow_abbrev=False, add_help=False)
        if hasattr(self, "color"):  # Python 3.14 has colours in its help
            self.color = False
        self.add_argument("--help", action="help", help="show this help and exit")

    @property
    def actions(self) -> Sequence[argparse.Action]:
        """What it takes."""
        return self._actions

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the arguments. Raises WrongUse."""
        raise WrongUse(f"{message}: see `{self.prog} --help`")
