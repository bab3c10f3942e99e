"""The commands and their files, which are loaded only when they are used."""

import importlib
from typing import Final, NamedTuple, Protocol, cast

from punctual.cli.exits import Exit
from punctual.cli.parser import Options, Parser


class Module(Protocol):
    """The functions of a command's file."""

    def add_arguments(self, parser: Parser) -> None:
        """Add the command's arguments to the parser."""

    def run(self, options: Options) -> Exit:
        """Run the command, and return its exit code. Raises a CommandError."""


class CliCommand(NamedTuple):
    """A command: its name, its summary, and its file."""

    name: str
    summary: str
    file: str

    def load(self) -> Module:
        """Load the file, and return its module."""
        return cast("Module", importlib.import_module(f"punctual.cli.{self.file}"))


COMMANDS: Final = (
    CliCommand("list", "list pending messages that match a filter", "listing"),
    CliCommand("show", "show a pending message and the history of its ID", "message"),
    CliCommand("pending", "count pending messages by destination", "pending"),
    CliCommand("forecast", "count messages by due time", "forecast"),
    CliCommand("send", "schedule a message, through Kafka", "send"),
    CliCommand("cancel", "cancel pending messages, by ID or by a filter", "cancel"),
    CliCommand("reschedule", "change the due time of pending messages, by ID or by a filter", "reschedule"),
    CliCommand("deliver-now", "deliver pending messages at once, by ID or by a filter", "deliver_now"),
    CliCommand("jobs", "list, follow and stop jobs: actions on all messages that match a filter", "jobs"),
    CliCommand("pause", "pause deliveries to a destination", "pause"),
    CliCommand("resume", "resume deliveries to a destination", "resume"),
    CliCommand("rate", "limit the rate of messages to a destination", "rate"),
    CliCommand("tail", "follow the events of messages", "tail"),
    CliCommand("dead-letters", "list dead letters (the DLQ), or show one", "dead_letters"),
    CliCommand("export", "write pending messages as JSON lines, for a backup or a migration", "export"),
    CliCommand("import", "schedule the messages of an export again, through Kafka", "importing"),
    CliCommand("completion", "print a script for shell completion", "completion"),
)


def find(name: str) -> CliCommand | None:
    """Return the command with this name, or None."""
    return next((command for command in COMMANDS if command.name == name), None)
