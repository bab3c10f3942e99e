"""Post a webhook whose receiver is down at first: Punctual retries with a backoff until the receiver accepts it.

The worker posts and signs. Its settings must allow the URL: DELAY_HTTP_DESTINATIONS='http://127.0.0.1*' here.

make run NAME=webhook_backoff
"""

import asyncio
from datetime import timedelta

from aiohttp import web
from topics import APP_ID, KAFKA

from punctual import DelayClient


class Receiver:
    """Answers 503 twice before it takes anything."""

    def __init__(self) -> None:
        self.tries = 0
        self.taken = asyncio.Event()

    async def take(self, request: web.Request) -> web.Response:
        self.tries += 1
        if self.tries <= 2:
            print(f"try {self.tries}: 503, try again later")
            return web.Response(status=503)
        print(f"try {self.tries}: taken, {await request.text()}")
        self.taken.set()
        return web.Response()


async def main() -> None:
    receiver, app = Receiver(), web.Application()
    app.router.add_post("/hooks/orders", receiver.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        async with DelayClient(KAFKA, app_id=APP_ID) as client:
            url = f"http://127.0.0.1:{runner.addresses[0][1]}/hooks/orders"
            await client.delay(url, {"order": 42}, after=timedelta(seconds=1))
            await receiver.taken.wait()
    finally:
        await runner.cleanup()


asyncio.run(main())
