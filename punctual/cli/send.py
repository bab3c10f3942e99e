"""`punctual send`: schedules a message, through Kafka."""

import os
import sys
import warnings
from pathlib import Path
from typing import Any, Final

from punctual.cli.arguments import add_form, count_of
from punctual.cli.errors import WrongUse
from punctual.cli.exits import Exit
from punctual.cli.kafka import add_kafka, client_of, told_errors
from punctual.cli.parser import Options, Parser
from punctual.cli.table import JSON, write_json
from punctual.cli.terminal import legible, say, write
from punctual.cli.times import moment, span
from punctual.contract.destination import shown

_STDIN: Final = "-"
#: Options with the same name and meaning in the client.
_OPTIONS: Final = (
    *("at", "after", "id", "every", "cron", "zone", "until", "count", "misfire"),
    *("to_partition", "to_cluster", "max_late", "if_late", "no_later", "jitter", "on_failure"),
)


def add_arguments(parser: Parser) -> None:
    """Add the arguments for the message and its due time."""
    about = "value of the message; without it, or with -, read from stdin"
    parser.add_argument("value", nargs="?", metavar="VALUE", help=about)
    parser.add_argument("--file", metavar="PATH", help="read the value from a file")
    parser.add_argument("--null", action="store_true", help="send a null value")
    parser.add_argument("--to", required=True, metavar="TOPIC", help="destination: a topic or a URL")
    parser.add_argument("--key", help="message key")
    about = "a header; without a value, null. Repeat it for more headers"
    parser.add_argument("--header", action="append", default=[], metavar="NAME[:VALUE]", help=about)
    parser.add_argument("--id", help="message ID; replaces the pending message with this ID (default: a new ID)")
    add_form(parser)
    _add_due(parser)
    _add_recurrence(parser)
    _add_policies(parser)
    add_kafka(parser)


def _add_due(parser: Parser) -> None:
    group = parser.add_argument_group("due time").add_mutually_exclusive_group()
    about = "due time: RFC 3339, epoch milliseconds, now, or from now: 15m, 2h, 1d"
    group.add_argument("--at", type=moment, metavar="TIME", help=about)
    group.add_argument(
        "--after", type=span, metavar="SPAN", help="delay, from when Kafka receives the request: 90s, 15m, PT1H"
    )


def _add_recurrence(parser: Parser) -> None:
    group = parser.add_argument_group("recurring messages: they begin at --at, if you give one")
    group.add_argument("--every", type=span, metavar="SPAN", help="interval: 15m, 1d")
    group.add_argument("--cron", metavar="FIELDS", help='cron expression of 5 or 6 fields: "0 8 * * mon"')
    group.add_argument("--zone", metavar="NAME", help="time zone of --cron: Europe/Berlin (default: UTC)")
    group.add_argument("--until", type=moment, metavar="TIME", help="no occurrence after this time")
    group.add_argument("--count", type=count_of(1), help="number of occurrences")
    about = 'missed occurrences: catch-up-last, catch-up or skip, and optionally a maximum lateness: "skip PT5M"'
    group.add_argument("--misfire", metavar="POLICY", help=about)


def _add_policies(parser: Parser) -> None:
    group = parser.add_argument_group("other options")
    group.add_argument("--to-partition", type=count_of(0), metavar="NUMBER", help="partition of the topic")
    group.add_argument("--to-cluster", metavar="NAME", help="name of a cluster in DELAY_CLUSTERS")
    group.add_argument("--max-late", type=span, metavar="SPAN", help="maximum lateness")
    group.add_argument("--if-late", choices=("deliver", "drop", "dead-letter"), help="what to do beyond --max-late")
    about = "debounce: maximum delay after the first request for this ID, however often it is replaced"
    group.add_argument("--no-later", type=span, metavar="SPAN", help=about)
    group.add_argument("--jitter", type=span, metavar="SPAN", help="random delay after the due time, at most this long")
    group.add_argument("--on-failure", metavar="URL", help="URL to call if the message cannot be delivered")


def run(options: Options) -> Exit:
    """Send the message, and write its id."""
    if options.at is None and options.after is None and options.every is None and options.cron is None:
        raise WrongUse("the due time is missing: give --at TIME, --after SPAN, --every SPAN or --cron FIELDS")
    value = _value(options)
    given: dict[str, Any] = {name: getattr(options, name) for name in _OPTIONS}
    given["key"] = None if options.key is None else os.fsencode(options.key)
    given["headers"] = [_header(text) for text in options.header]
    with told_errors(), client_of(options) as client, warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always", UserWarning)
        id_ = client.delay(options.to, value, **given)
    for doubt in doubts:
        say(f"warning: {doubt.message}")
    if options.format == JSON:
        write_json({"id": id_, "to": shown(options.to)})
    else:
        write(legible(id_))
    return Exit.DONE


def _value(options: Options) -> bytes | None:
    """Return the value of the message. Raises WrongUse if it is given twice or cannot be read."""
    given = [options.value is not None, options.file is not None, options.null]
    if sum(given) > 1:
        raise WrongUse("the value is given twice: give only one of VALUE, --file and --null")
    if options.null:
        return None
    if options.file is not None:
        try:
            return Path(options.file).read_bytes()
        except OSError as error:
            raise WrongUse(f"--file {options.file!r} cannot be read: {error.strerror}") from error
    if options.value not in (None, _STDIN):
        return os.fsencode(options.value)
    if options.value is None and (sys.stdin is None or sys.stdin.isatty()):
        raise WrongUse("the value is missing: give VALUE, --file, --null, or - to type it and end it with Ctrl-D")
    return sys.stdin.buffer.read()


def _header(text: str) -> tuple[str, bytes | None]:
    name, colon, value = text.partition(":")
    return name, os.fsencode(value) if colon else None
