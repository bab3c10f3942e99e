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
    Command("list", "list pending messages that match a filter", "listing"),
    Command("show", "show a pending message and the history of its ID", "message"),
    Command("pending", "count pending messages by destination", "pending"),
    Command("forecast", "count messages by due time", "forecast"),
    Command("send", "schedule a message, through Kafka", "send"),
    Command("cancel", "cancel pending messages, by ID or by a filter", "cancel"),
    Command("reschedule", "change the due time of pending messages, by ID or by a filter", "reschedule"),
    Command("deliver-now", "deliver pending messages at once, by ID or by a filter", "deliver_now"),
    Command("jobs", "list, follow and stop jobs: actions on all messages that match a filter", "jobs"),
    Command("pause", "pause deliveries to a destination", "pause"),
    Command("resume", "resume deliveries to a destination", "resume"),
    Command("rate", "limit the rate of messages to a destination", "rate"),
    Command("tail", "follow the events of messages", "tail"),
    Command("dead-letters", "list dead letters (the DLQ), or show one", "dead_letters"),
    Command("export", "write pending messages as JSON lines, for a backup or a migration", "export"),
    Command("import", "schedule the messages of an export again, through Kafka", "importing"),
    Command("completion", "print a script for shell completion", "completion"),
)


def find(name: str) -> Command | None:
    """Return the command of a name, or None."""
    return next((command for command in COMMANDS if command.name == name), None)
