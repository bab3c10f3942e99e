"""`punctual pause`: the due messages of a destination, or a recurring message, wait until they are resumed."""

from punctual.cli.control import add_control, add_object, command_series, run_control
from punctual.cli.errors import WrongUse
from punctual.cli.exits import Exit
from punctual.cli.parser import Options, Parser
from punctual.cli.times import moment_ms


def add_arguments(parser: Parser) -> None:
    """Take a destination or the id of a recurring message, why, and until when."""
    add_object(parser)
    parser.add_argument("--reason", metavar="TEXT", help="reason, shown to others")
    said = "end of the pause: RFC 3339, epoch milliseconds, or from now: 15m, 2h, 1d (default: until resumed)"
    parser.add_argument("--until", type=moment_ms, metavar="TIME", help=said)
    add_control(parser)


def run(options: Options) -> Exit:
    """Pause it."""
    if options.id is None:
        return run_control(options, "pause", {"reason": options.reason, "until": options.until})
    if options.reason is not None or options.until is not None:
        raise WrongUse(
            "--reason and --until work only for destinations; a recurring message is paused until you resume it"
        )
    return command_series(options, "pause")
