"""A Faust app that handles events in the order of their keys, some of which fail; run by tests/integration/ordered_app.

What it has handled it appends to a file: a line with key and number, in the order of time whoever writes it.
"""

import os
from collections import Counter

import faust

from punctual import exponential
from punctual.client.faust_methods import DelayMethods

TO, DONE = os.environ["APP_TO"], os.environ["APP_DONE"]


class Shop(DelayMethods, faust.App):
    delay_app_id = os.environ["APP_DELAY"]


app = Shop(
    f"{TO}-shop",
    broker=f"kafka://{os.environ['APP_KAFKA']}",
    datadir=os.environ["APP_DATA"],
    store="memory://",
    web_enabled=False,
    topic_allow_declare=False,
    topic_disable_leader=True,
    broker_session_timeout=6.0,
    broker_heartbeat_interval=1.5,
    broker_commit_interval=0.5,
    consumer_auto_offset_reset="earliest",
)
source = app.topic(TO, value_type=bytes, value_serializer="raw")
file = os.open(DONE, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
tries = Counter[tuple[int, int]]()


@app.retryable(
    source,
    backoff=exponential(os.environ["APP_BASE"], 2, "1h"),
    max_attempts=int(os.environ["APP_ATTEMPTS"]),
    on=(ValueError,),
    order="key",
)
async def handle(value: bytes) -> None:
    """Fail as often as the event's header says, in another way if it has one that says so."""
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
