"""`punctual pause`: what is due for a destination waits until it is resumed."""

from punctual.cli.control import add_control, run_control
from punctual.cli.exits import Exit
from punctual.cli.parser import Options, Parser
from punctual.cli.times import moment_ms


def add_arguments(parser: Parser) -> None:
    """Take a destination, why, and how long."""
    parser.add_argument("destination", metavar="DESTINATION", help="a topic, or the origin of URLs")
    parser.add_argument("--reason", metavar="TEXT", help="why, for others to see")
    said = "until then: RFC 3339, epoch milliseconds, or a span from now on: 15m, 2h, 1d (until it is resumed)"
    parser.add_argument("--until", type=moment_ms, metavar="TIME", help=said)
    add_control(parser)


def run(options: Options) -> Exit:
    """Do it."""
    return run_control(options, "pause", {"reason": options.reason, "until": options.until})
