"""`punctual resume`: a destination that is paused gets its messages again."""

from punctual.cli.control import add_control, run_control
from punctual.cli.exits import Exit
from punctual.cli.parser import Options, Parser


def add_arguments(parser: Parser) -> None:
    """Take a destination."""
    parser.add_argument("destination", metavar="DESTINATION", help="a topic, or the origin of URLs")
    add_control(parser)


def run(options: Options) -> Exit:
    """Do it."""
    return run_control(options, "resume", {})
