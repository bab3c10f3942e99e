"""Which commands there are, and which file each is in: none is loaded before it is asked for."""

import importlib
from typing import Final, NamedTuple, Protocol, cast

from punctual.cli.exits import Exit
from punctual.cli.parser import Options, Parser


class Module(Protocol):
    """What the file of a command has."""

    def add_arguments(self, parser: Parser) -> None:
        """Say what the command takes."""

    def run(self, options: Options) -> Exit:
        """Do it, and return what to end with. Raises a CommandError."""


class Command(NamedTuple):
    """A command: its name, what it does in a line, and its file."""

    name: str
    summary: str
    file: str

    def load(self) -> Module:
        """Return its file, loaded."""
        return cast("Module", importlib.import_module(f"punctual.cli.{self.file}"))


COMMANDS: Final = (
    Command("list", "list pending messages, those that match a filter", "listing"),
    Command("show", "show a pending message, and what has happened to its id", "message"),
    Command("pending", "count what is pending, by destination", "pending"),
    Command("forecast", "count what is due when", "forecast"),
)


def find(name: str) -> Command | None:
    """Return the command of a name, or None."""
    return next((command for command in COMMANDS if command.name == name), None)
