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
    Command("send", "ask for a message, through Kafka", "send"),
    Command("cancel", "call off pending messages, by their ids or by a filter", "cancel"),
    Command("reschedule", "give pending messages another due time, by ids or a filter", "reschedule"),
    Command("deliver-now", "deliver pending messages at once, by ids or a filter", "deliver_now"),
    Command("jobs", "list and follow the acts on all that match a filter, and stop one", "jobs"),
    Command("pause", "hold what is due for a destination", "pause"),
    Command("resume", "deliver again to a destination that is paused", "resume"),
    Command("rate", "cap how many messages a second a destination gets", "rate"),
    Command("tail", "follow what happens to messages, as events tell it", "tail"),
    Command("dead-letters", "list what could not be accepted or delivered, and show one", "dead_letters"),
    Command("export", "write all that is pending as JSON lines: a backup, or the way to another cluster", "export"),
    Command("import", "ask for what an export has written, through Kafka", "importing"),
    Command("completion", "write a script by which a shell completes what is typed", "completion"),
)


def find(name: str) -> Command | None:
    """Return the command of a name, or None."""
    return next((command for command in COMMANDS if command.name == name), None)
