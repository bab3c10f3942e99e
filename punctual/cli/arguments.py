"""Arguments of several commands."""

import os
from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import Final

from punctual.cli.api import DEFAULT_URL
from punctual.cli.errors import WrongUse
from punctual.cli.parser import Options, Parser
from punctual.cli.table import JSON, TABLE
from punctual.cli.times import moment_ms, seconds

_WATCH_S: Final = 2.0
_FILTER: Final = ("to", "due_from", "due_to", "key", "header", "source", "id_prefix", "namespace", "recurring")


def add_worker(parser: Parser) -> None:
    """Add the arguments for the worker and the login."""
    group = parser.add_argument_group("connection: any worker of the installation")
    url = os.environ.get("PUNCTUAL_URL") or DEFAULT_URL
    group.add_argument("--url", default=url, help=f"address of the worker (PUNCTUAL_URL, or {DEFAULT_URL})")
    what = "user name; the password comes from PUNCTUAL_PASSWORD or a prompt. Or set PUNCTUAL_TOKEN"
    group.add_argument("--user", metavar="NAME", help=what)


def add_form(parser: Parser) -> None:
    """Add the argument for the output format."""
    about = "output format; json writes one object per line (default: table)"
    parser.add_argument("--format", choices=(TABLE, JSON), default=TABLE, help=about)


def add_watch(parser: Parser) -> None:
    """Add the argument for repeated output."""
    about = f"refresh every SECONDS (default: {_WATCH_S:g}), until Ctrl-C"
    parser.add_argument("--watch", nargs="?", type=seconds, const=_WATCH_S, metavar="SECONDS", help=about)


def add_filter(parser: Parser) -> None:
    """Add the arguments for a filter of messages."""
    group = parser.add_argument_group("filter: messages that match all of these")
    group.add_argument("--to", metavar="TOPIC", help="destination: a topic, a URL, or the beginning of a URL")
    when = "RFC 3339, epoch milliseconds, now, or from now: 15m, 2h, 1d"
    group.add_argument("--due-from", type=moment_ms, metavar="TIME", help=f"due at this time or later: {when}")
    group.add_argument("--due-to", type=moment_ms, metavar="TIME", help="due at this time or earlier")
    group.add_argument("--key", help="message key")
    group.add_argument("--header", metavar="NAME[:VALUE]", help="header with this name, and this value if you give one")
    about = "requested through this topic, topic-partition, or topic-partition-offset"
    group.add_argument("--source", metavar="SOURCE", help=about)
    group.add_argument("--id-prefix", metavar="TEXT", help="IDs that begin with TEXT")
    group.add_argument("--namespace", metavar="NAME[,NAME…]", help="IDs of these namespaces")
    group.add_argument("--recurring", action="store_const", const="yes", help="recurring messages only")


def filter_of(options: Options) -> dict[str, str]:
    """Return the filter in the options, in the API's form.

    Raises WrongUse if a value is empty, because that would match all messages.
    """
    given = {name: getattr(options, name) for name in _FILTER}
    conditions = {name: str(value) for name, value in given.items() if value is not None}
    for name, text in conditions.items():
        if not text.strip():
            raise WrongUse(f"--{name.replace('_', '-')} is empty: give a value, or leave the option out")
    return conditions


def count_of(least: int) -> Callable[[str], int]:
    """Return a parser of whole numbers from `least` on."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit()) or int(text) < least:
            raise ArgumentTypeError(f"{text[:64]!r} is not a whole number of {least} or more")
        return int(text)

    return read
