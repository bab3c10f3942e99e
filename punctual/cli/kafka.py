"""Kafka for commands that write or read records: connection, login, and errors as sentences."""

import os
from argparse import ArgumentTypeError
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from punctual.cli.errors import CommandError, NotAllowed, NotFound, Unreachable, WrongUse
from punctual.cli.parser import Options, Parser
from punctual.contract.request import TOPIC_NAME

_SERVERS: Final = "127.0.0.1:9092"
_APP_ID: Final = "delay"


def add_kafka(parser: Parser) -> None:
    """Add the arguments for the cluster and the installation."""
    group = parser.add_argument_group("Kafka: log in with the KAFKA_… settings, as for a worker")
    servers = os.environ.get("KAFKA_BOOTSTRAP_SERVERS") or _SERVERS
    about = f"brokers, separated by commas (KAFKA_BOOTSTRAP_SERVERS, or {_SERVERS})"
    group.add_argument("--bootstrap", default=servers, metavar="HOST:PORT", help=about)
    app_id = os.environ.get("DELAY_APP_ID") or _APP_ID
    about = f"app ID of the installation (DELAY_APP_ID, or {_APP_ID})"
    group.add_argument("--app-id", type=_app_id, default=app_id, metavar="NAME", help=about)


def security() -> dict[str, Any]:
    """Return the login as options of Kafka's client. Raises WrongUse."""
    from punctual.security import LoginInvalid, kafka_options  # noqa: PLC0415 - not needed for help

    try:
        return kafka_options()
    except LoginInvalid as error:
        names = ", ".join(f"KAFKA_{name}" for name in error.name.split(", "))
        raise WrongUse(f"{names} is {error.shown}: {error.why}") from error


def client_of(options: Options) -> Any:
    """Return a client of the installation in the options, not connected yet. Raises WrongUse."""
    from punctual.client.sync import SyncDelayClient  # noqa: PLC0415 - help needs no client

    with told_errors():
        return SyncDelayClient(options.bootstrap, app_id=options.app_id, **security())


@contextmanager
def told_errors() -> Iterator[None]:
    """Turn the client's errors into errors of commands, which have exit codes."""
    from punctual.client import errors  # noqa: PLC0415 - help needs no client

    kinds: list[tuple[type[errors.DelayError], type[CommandError]]] = [
        (errors.InvalidRequestError, WrongUse),
        (errors.RequestsTopicMissingError, NotFound),
        (errors.NotAuthorizedError, NotAllowed),
        (errors.KafkaUnreachableError, Unreachable),
        (errors.NotAcknowledgedError, Unreachable),
    ]
    try:
        yield
    except errors.DelayError as error:
        kind = next((kind for cause, kind in kinds if isinstance(error, cause)), CommandError)
        raise kind(_plain(str(error))) from error
    except ValueError as error:  # Kafka's client rejects an address or an option
        raise WrongUse(f"the Kafka client rejected its options: {error}. Check --bootstrap and KAFKA_…") from error


def _plain(sentence: str) -> str:
    """Return a sentence without its full stop, in the style of commands."""
    return sentence.removesuffix(".")


def _app_id(text: str) -> str:
    if not TOPIC_NAME.fullmatch(text):
        raise ArgumentTypeError(
            f"{text[:64]!r} is not a DELAY_APP_ID. Use letters, digits, dots, underscores and hyphens"
        )
    return text
