"""`punctual deliver-now`: pending messages are delivered at once."""

from punctual.cli.act import add_act, run_act
from punctual.cli.exits import Exit
from punctual.cli.parser import Options, Parser


def add_arguments(parser: Parser) -> None:
    """Take ids or a filter."""
    add_act(parser)


def run(options: Options) -> Exit:
    """Do it."""
    return run_act(options, "deliver-now", {})
