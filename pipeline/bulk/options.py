"""The options that map a row's columns to the fields of a request."""

import argparse
import re
from collections.abc import Sequence

from pipeline.bulk.mapping import Mapping
from pipeline.errors import OptionInvalid
from punctual.contract import headers as names
from punctual.contract.request import TOPIC_NAME
from punctual.contract.times import parse_duration

_JOB = re.compile(r"[a-zA-Z0-9._-]{1,100}")
_LATE = ("deliver", "drop", "dead-letter")


def add_mapping(parser: argparse.ArgumentParser) -> None:
    """Add the options of a mapping. EXPR is Spark SQL over the columns of the input, or the name of a column."""
    group = parser.add_argument_group("a row's message (EXPR: Spark SQL over the columns, at least the name of one)")
    group.add_argument(
        "--job", required=True, type=_job, metavar="NAME", help="name of the job; IDs begin with it and a colon"
    )
    group.add_argument(
        "--at", required=True, metavar="EXPR", help="due time: timestamp, date, epoch milliseconds or text"
    )
    to = group.add_mutually_exclusive_group(required=True)
    to.add_argument("--to", type=_topic, metavar="TOPIC", help="destination of all messages")
    to.add_argument("--to-column", metavar="EXPR", help="column or expression of the destination")
    group.add_argument("--to-partition", metavar="EXPR", help="partition (default: by the key, like Kafka's clients)")
    group.add_argument("--key", metavar="EXPR", help="key (default: null)")
    value = group.add_mutually_exclusive_group(required=True)
    value.add_argument("--value", metavar="EXPR", help="value: binary unchanged, other types as text; can be null")
    value.add_argument("--value-json", metavar="COLUMN,…", help="value: a JSON object of these columns; '*' for all")
    group.add_argument(
        "--header", action="append", default=[], metavar="NAME=EXPR", help="a header; repeat it for more"
    )
    id_options = group.add_mutually_exclusive_group(required=True)
    id_options.add_argument(
        "--natural-key", metavar="COLUMN,…", help="columns that make the ID, with the due time and the job"
    )
    id_options.add_argument("--id", metavar="EXPR", help="the ID")
    group.add_argument(
        "--dedupe", type=_duration, default="P7D", help="deduplication window after a delivery (default: %(default)s)"
    )
    group.add_argument("--max-late", type=_duration, metavar="DURATION", help="maximum lateness")
    group.add_argument("--if-late", choices=_LATE, help="what to do beyond --max-late (default: deliver)")
    group.add_argument(
        "--jitter", type=_duration, metavar="DURATION", help="random delay after --at, at most this long"
    )
    group.add_argument(
        "--no-later",
        type=_duration,
        metavar="DURATION",
        help="debounce: maximum delay after the first request for its ID",
    )


def mapping_of(options: argparse.Namespace) -> Mapping:
    """Return the mapping of parsed options. Raises OptionInvalid."""
    if options.if_late and not options.max_late:
        raise OptionInvalid("--if-late needs --max-late, the maximum lateness.")
    headers = pairs("--header", options.header)
    reserved = next((name for name, _ in headers if name.startswith(names.PREFIX)), None)
    if reserved is not None:
        raise OptionInvalid(f"--header {reserved}: names that begin with {names.PREFIX} are reserved. Rename it.")
    policies = {names.DEDUPE: options.dedupe, names.MAX_LATE: options.max_late, names.IF_LATE: options.if_late}
    policies |= {names.JITTER: options.jitter, names.NO_LATER: options.no_later}
    everything = options.value_json is not None and options.value_json.strip() == "*"
    return Mapping(
        job=options.job,
        at=options.at,
        to=options.to_column if options.to is None else f"'{options.to}'",
        value=options.value,
        value_columns=() if everything else _columns(options.value_json),
        key=options.key,
        id=options.id,
        natural_key=_columns(options.natural_key),
        headers=headers,
        to_partition=options.to_partition,
        policies={name: value for name, value in policies.items() if value is not None},
    )


def pairs(option: str, texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the names and values of an option of the form NAME=VALUE. Raises OptionInvalid."""
    parts = [each.partition("=") for each in texts]
    wrong = next((name for name, _, value in parts if not name or not value), None)
    if wrong is not None:
        raise OptionInvalid(f"{option} {wrong!r} is not of the form NAME=VALUE.")
    return tuple((name, value) for name, _, value in parts)


def duration_ms(text: str) -> int:
    """Return the milliseconds of a duration, for argparse."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def positive(text: str) -> float:
    """Return a number above 0, for argparse."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


def _duration(text: str) -> str:
    duration_ms(text)
    return text


def _job(text: str) -> str:
    if not _JOB.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r}: use 1 to 100 letters, digits, dots, underscores, hyphens")
    return text


def _topic(text: str) -> str:
    if not TOPIC_NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid topic name")
    return text


def _columns(text: str | None) -> tuple[str, ...]:
    return tuple(name for name in map(str.strip, (text or "").split(",")) if name)
