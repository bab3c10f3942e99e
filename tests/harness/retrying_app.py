"""A Faust app whose handler fails as often as an event's header says; run by tests/integration/faust_app.py."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import faust

from punctual import exponential
from tests.harness.shop import app, source

DONE = os.environ["APP_DONE"]
done = app.topic(DONE, value_type=bytes, value_serializer="raw")


@app.retryable(
    source,
    backoff=exponential(os.environ["APP_BASE"], 2, "2s", jitter=False),
    max_attempts=int(os.environ["APP_ATTEMPTS"]),
    on=(ValueError,),
)
async def handle(value: bytes) -> None:
    """Fail the first `fails` attempts (a header); die once, if there is a header `dies`."""
    event: Any = faust.streams.current_event()
    headers = event.headers
    died = Path(os.environ["APP_DATA"]).with_suffix(".died")
    if "dies" in headers and not died.exists():
        died.touch()
        await asyncio.sleep(2)  # time for a wrong, early acknowledgement to be committed
        os.kill(os.getpid(), signal.SIGKILL)
    attempt = int(headers.get("delay-attempt", b"1"))
    if attempt <= int(headers["fails"]):
        raise ValueError(f"number {value.decode()} fails")
    await done.send(key=event.message.key, value=value, headers={"attempt": b"%d" % attempt})


if __name__ == "__main__":
    app.main()
