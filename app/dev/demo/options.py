"""The command line of the demonstration."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DEFAULT_PORT = 6066  # the worker's own default


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of the command line."""

    rate: float
    seconds: float | None
    workers: int
    port: int
    kafka_port: int | None
    data: Path | None


def parse(arguments: Sequence[str] | None = None) -> DemoOptions:
    """Return the options; an invalid one ends the program with exit code 2 and a message."""
    parser = argparse.ArgumentParser(
        prog="python -m app.dev.demo",
        description="Start Kafka, a worker and a shop whose orders need reminders. Ctrl-C stops everything.",
        epilog="KAFKA_BOOTSTRAP_SERVERS uses that cluster instead of starting one; the worker's settings apply too.",
    )
    parser.add_argument("--rate", type=_positive, default=2.0, metavar="N", help="orders per second (default: 2)")
    parser.add_argument("--seconds", type=_positive, metavar="N", help="stop after N seconds of traffic")
    parser.add_argument("--workers", type=_count, default=1, metavar="N", help="workers to start (default: 1)")
    parser.add_argument(
        "--port",
        type=_port,
        default=int(os.environ.get("PORT") or DEFAULT_PORT),
        metavar="N",
        help=f"console port of the first worker; others use the next ports (default: $PORT or {DEFAULT_PORT})",
    )
    parser.add_argument("--kafka-port", type=_port, metavar="N", help="Kafka's port (default: a free one)")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="keep all data here across runs (default: a temporary directory)"
    )
    return DemoOptions(**vars(parser.parse_args(arguments)))


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not above zero")
    return number


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 16:  # noqa: PLR2004 - more than partitions would be idle
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and 16")
    return number


def _port(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 65535:  # noqa: PLR2004 - TCP's range
        raise argparse.ArgumentTypeError(f"{text} is not a port number, 1 to 65535")
    return number
