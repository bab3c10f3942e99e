"""`python -m app.dev.demo`: exit code 0 after a signal, 1 if a part failed, 2 for a wrong option."""

import asyncio
import logging
import os
import signal
import sys

from app.base.errors import PunctualError
from app.dev.broker import BrokerError
from app.dev.demo.installation import installation
from app.dev.demo.options import parse
from app.dev.demo.run import run
from app.dev.demo.screen import Screen
from app.dev.demo.worker import DemoError
from punctual import DelayError


def main() -> int:
    """Run the demonstration and return its exit code."""
    options, screen = parse(), Screen(sys.stdout)
    # `kill` must clean up as Ctrl-C does, even while the broker starts.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Kafka's client warns of every passing problem, such as new topics; lasting errors are raised.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    if not os.environ.get("KAFKA_BOOTSTRAP_SERVERS"):
        screen.say("Starting Kafka (the first time, its 45 MB of jars are fetched) ...")
    try:
        with installation(options, _say) as place:
            asyncio.run(run(options, place, screen))
            screen.say("Stopping ...")
    except KeyboardInterrupt:
        return 0
    except (DemoError, BrokerError, DelayError, PunctualError) as error:
        _say(str(error))
        return 1
    return 0


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


if __name__ == "__main__":
    sys.exit(main())
