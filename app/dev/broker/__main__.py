"""`punctual broker`: a Kafka for development in the foreground until Ctrl-C."""

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

from app.dev.broker.broker import Broker
from app.dev.broker.errors import BrokerError
from app.dev.broker.jars import kafka_version

DEFAULT_PORT = "9092"
DEFAULT_DATA = ".kafka"
_HELP = """Run a Kafka for development on 127.0.0.1 until Ctrl-C. Environment variables: KAFKA_PORT (9092), KAFKA_DATA
(.kafka), KAFKA_VERSION and KAFKA_JAVA. See docs/how-to/development-broker.md."""


def main() -> int:
    """Run a broker until SIGINT or SIGTERM.

    Returns:
        The exit code: 0 after a signal, 1 if it could not run, 2 if a setting is wrong.
    """
    port, data = os.environ.get("KAFKA_PORT") or DEFAULT_PORT, Path(os.environ.get("KAFKA_DATA") or DEFAULT_DATA)
    if not port.isdecimal() or not 0 < int(port) < 1 << 16:
        _say(f"KAFKA_PORT is {port!r}, which is not a port number. Set it to a number from 1 to 65535.")
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _say(f"Starting Apache Kafka {kafka_version()} (the first time, its jars are fetched: 45 MB) …")
        with Broker(data, int(port), say=_say) as broker:
            sys.stdout.write(f"Kafka serves on {broker.bootstrap}\n")
            sys.stdout.flush()
            _say(f"Data and broker.log are in {broker.directory}. Ctrl-C stops it.")
            _watch(broker)
    except KeyboardInterrupt:
        return 0
    except BrokerError as error:
        _say(str(error))
        return 1


def _watch(broker: Broker) -> NoReturn:
    while True:
        time.sleep(0.5)
        broker.check()


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


if __name__ == "__main__":
    argparse.ArgumentParser(prog="punctual broker", description=_HELP).parse_args()
    sys.exit(main())
