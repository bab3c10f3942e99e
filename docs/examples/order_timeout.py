"""Let an order expire if it is not confirmed in time; a confirmation cancels the timeout.

A confirmation can arrive while its timeout is being delivered, so the reader of timeouts checks the order's status.

make run NAME=order_timeout
"""

import asyncio
from datetime import timedelta

from topics import APP_ID, KAFKA, arrivals

from punctual import DelayClient

CONFIRM_WITHIN = timedelta(seconds=3)
orders: dict[str, str] = {}


async def place(client: DelayClient, order: str) -> None:
    orders[order] = "placed"
    await client.delay("order-timeouts", order, after=CONFIRM_WITHIN, id=f"timeout-{order}")


async def confirm(client: DelayClient, order: str) -> None:
    orders[order] = "confirmed"
    await client.cancel(f"timeout-{order}")


async def main() -> None:
    async with DelayClient(KAFKA, app_id=APP_ID) as client, arrivals("order-timeouts") as timeouts:
        for order in ("A-1", "A-2", "A-3"):
            await place(client, order)
        await confirm(client, "A-2")

        while "placed" in orders.values():
            order = (await anext(timeouts)).value.decode()
            if orders[order] == "placed":
                orders[order] = "expired"
            print(f"{order} is {orders[order]}")
        print(f"A-2 is {orders['A-2']}")


asyncio.run(main())
