"""`punctual resume`: resumes a paused destination or a recurring message."""

from punctual.cli.control import add_control, add_object, command_series, run_control
from punctual.cli.exits import Exit
from punctual.cli.parser import Options, Parser


def add_arguments(parser: Parser) -> None:
    """Add the arguments for a destination or a recurring message."""
    add_object(parser)
    add_control(parser)


def run(options: Options) -> Exit:
    """Resume the destination or the recurring message."""
    return run_control(options, "resume", {}) if options.id is None else command_series(options, "resume")
