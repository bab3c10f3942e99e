"""A consumer of a queue that forgets to acknowledge some messages at random; run by tests/harness/queue_run.py.

It writes each processed message to a file before it acknowledges the message: the file survives a SIGKILL.
"""

import asyncio
import os
import random
import signal
from datetime import timedelta

from punctual.queue import DelayQueue, Message


async def main() -> None:
    """Process messages until SIGTERM."""
    env, chance = os.environ, random.Random()  # noqa: S311 - it chooses faults
    drops, done = float(env["QUEUE_DROPS"]), os.open(env["QUEUE_DONE"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    queue = DelayQueue(
        env["QUEUE_KAFKA"],
        env["QUEUE_TOPIC"],
        env["QUEUE_GROUP"],
        timedelta(seconds=float(env["QUEUE_TIMEOUT"])),
        max_attempts=None,
        max_unacked=int(env["QUEUE_UNACKED"]),
        app_id=env["QUEUE_DELAY"],
        consumer={"session_timeout_ms": 6_000, "heartbeat_interval_ms": 1_500},
    )

    async def work() -> None:
        async for batch in queue.batches():
            os.write(done, b"".join(_line(message) for message in batch))
            for message in batch:
                if chance.random() >= drops:
                    await message.ack()

    async with queue:
        working = asyncio.create_task(work())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, working.cancel)
        await asyncio.gather(working, return_exceptions=True)


def _line(message: Message) -> bytes:
    return b"%b %d\n" % (message.value or b"", message.attempt)


if __name__ == "__main__":
    asyncio.run(main())
