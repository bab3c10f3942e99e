"""`punctual rate`: limits the rate of messages to a destination."""

from typing import Final

from punctual.cli.control import add_control, run_control
from punctual.cli.exits import Exit
from punctual.cli.parser import Options, Parser

_SETTINGS: Final = "default"


def add_arguments(parser: Parser) -> None:
    """Add the arguments for a destination and its rate limit."""
    parser.add_argument("destination", metavar="DESTINATION", help="a topic, or the origin of URLs")
    about = f"20/s or '20/s burst 100'; none for no limit, {_SETTINGS} for the limit in the workers' settings"
    parser.add_argument("rate", metavar="RATE", help=about)
    add_control(parser)


def run(options: Options) -> Exit:
    """Set the rate limit."""
    return run_control(options, "rate", {"rate": None if options.rate == _SETTINGS else options.rate})
