"""`punctual rate`: how many messages a second a destination gets at most."""

from typing import Final

from punctual.cli.control import add_control, run_control
from punctual.cli.exits import Exit
from punctual.cli.parser import Options, Parser

_SETTINGS: Final = "default"


def add_arguments(parser: Parser) -> None:
    """Take a destination and its cap."""
    parser.add_argument("destination", metavar="DESTINATION", help="a topic, or the origin of URLs")
    said = f"20/s or '20/s burst 100'; none for no limit, {_SETTINGS} for the limit in the workers' settings"
    parser.add_argument("rate", metavar="RATE", help=said)
    add_control(parser)


def run(options: Options) -> Exit:
    """Do it."""
    return run_control(options, "rate", {"rate": None if options.rate == _SETTINGS else options.rate})
