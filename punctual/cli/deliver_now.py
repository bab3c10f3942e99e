"""`punctual deliver-now`: delivers pending messages at once."""

from punctual.cli.action import add_action, run_action
from punctual.cli.exits import Exit
from punctual.cli.parser import Options, Parser


def add_arguments(parser: Parser) -> None:
    """Add the arguments for ids or a filter."""
    add_action(parser)


def run(options: Options) -> Exit:
    """Deliver the messages."""
    return run_action(options, "deliver-now", {})
