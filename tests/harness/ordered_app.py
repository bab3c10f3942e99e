"""A Faust app that handles events in the order of their keys and fails some (tests/integration/faust_app.py).

It appends each handled event to a file, in the order of time across processes: a line with key and number.
"""

import os
from collections import Counter

import faust

from punctual import exponential
from tests.harness.shop import app, source

file = os.open(os.environ["APP_DONE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
tries = Counter[tuple[int, int]]()


@app.retryable(
    source,
    backoff=exponential(os.environ["APP_BASE"], 2, "1h"),
    max_attempts=int(os.environ["APP_ATTEMPTS"]),
    on=(ValueError,),
    order="key",
)
async def handle(value: bytes) -> None:
    """Fail as often as the header `fails` says, with LookupError if there is a header `badly`."""
    event = faust.streams.current_event()
    assert event is not None
    assert event.value is value, "it would be another event's headers"
    place = event.message.partition, event.message.offset
    tries[place] += 1
    if tries[place] <= int(event.headers["fails"]):
        if "badly" in event.headers:
            raise LookupError("nobody has thought of this")
        raise ValueError(f"number {value.decode()} fails")
    os.write(file, b"%s %s\n" % (event.message.key, value))


if __name__ == "__main__":
    app.main()
