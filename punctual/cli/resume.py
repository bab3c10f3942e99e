"""`punctual resume`: a destination that is paused gets its messages again, a recurring message goes on."""

from punctual.cli.control import add_control, add_object, command_series, run_control
from punctual.cli.exits import Exit
from punctual.cli.parser import Options, Parser


def add_arguments(parser: Parser) -> None:
    """Take a destination or the id of a recurring message."""
    add_object(parser)
    add_control(parser)


def run(options: Options) -> Exit:
    """Resume it."""
    return run_control(options, "resume", {}) if options.id is None else command_series(options, "resume")
