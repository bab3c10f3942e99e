"""`punctual pause`: pauses a destination or a recurring message until it is resumed."""

from punctual.cli.control import add_control, add_object, command_series, run_control
from punctual.cli.errors import WrongUse
from punctual.cli.exits import Exit
from punctual.cli.parser import Options, Parser
from punctual.cli.times import moment_ms


def add_arguments(parser: Parser) -> None:
    """Add the arguments for a destination or a recurring message, a reason, and an end."""
    add_object(parser)
    parser.add_argument("--reason", metavar="TEXT", help="reason, shown to others")
    about = "end of the pause: RFC 3339, epoch milliseconds, or from now: 15m, 2h, 1d (default: until resumed)"
    parser.add_argument("--until", type=moment_ms, metavar="TIME", help=about)
    add_control(parser)


def run(options: Options) -> Exit:
    """Pause the destination or the recurring message."""
    if options.id is None:
        return run_control(options, "pause", {"reason": options.reason, "until": options.until})
    if options.reason is not None or options.until is not None:
        raise WrongUse(
            "--reason and --until work only for destinations; a recurring message is paused until you resume it"
        )
    return command_series(options, "pause")
