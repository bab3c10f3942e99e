"""`punctual cancel`: pending messages are called off, and never delivered."""

from punctual.cli.action import add_action, run_action
from punctual.cli.exits import Exit
from punctual.cli.parser import Options, Parser


def add_arguments(parser: Parser) -> None:
    """Take ids or a filter."""
    add_action(parser)


def run(options: Options) -> Exit:
    """Do it."""
    return run_action(options, "cancel", {})
