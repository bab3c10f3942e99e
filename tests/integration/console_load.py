"""Pending messages while the console is driven: some hundred, or CONSOLE_PENDING."""

import os
from typing import Final

from tests.harness.waiting import eventually
from tests.integration.installation import Installation
from tests.integration.test_actions import get

USUAL: Final = 240
COUNT: Final = int(os.environ.get("CONSOLE_PENDING", USUAL))
#: So many a second are dealt with by the slowest machine that is thought of.
_PER_S: Final = 2_000
_FLUSHED: Final = 100_000


def fill(installation: Installation) -> list[str]:
    """Ask for messages to three destinations, from minutes to days ahead, and for three to an unknown one."""
    topics = [installation.topic() for _ in range(3)]
    for number in range(COUNT):
        place = number * USUAL / COUNT
        after_s = 900 + place**2 * 7 if number % 3 else 600 + place * 25
        headers = {
            "delay-to": topics[number % 7 % 3],
            "delay-after": str(int(after_s * 1000)),
            "delay-id": f"order-{number}",
            "kind": "reminder",
        }
        value = b'{"order": %d, "customer": "c-%d", "paid": false}' % (number, number % 7)
        installation.requests.send(headers, b"customer-%d" % (number % 7), value)
        if number % _FLUSHED == 0:
            installation.requests.flush()
    for number in range(3):
        lost = {"delay-to": "no-such-topic", "delay-after": "1", "delay-id": f"lost-{number}"}
        installation.requests.send(lost, b"lost", b"lost")
    installation.requests.flush()
    eventually(lambda: pending(installation) == COUNT, patience_s(COUNT), "all messages")
    return topics


def pending(installation: Installation) -> int:
    """Return how many messages are pending, -1 as long as the worker does not know."""
    return int(get(installation, "/overview")[1].get("pending", -1))


def patience_s(count: int) -> float:
    """Return the time limit in seconds for an action on `count` messages."""
    return 60 + count / _PER_S
