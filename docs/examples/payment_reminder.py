"""Remind customers of every order that is not paid in time; a payment cancels the reminder.

make run NAME=payment_reminder
"""

import asyncio
from datetime import timedelta

from topics import APP_ID, KAFKA, arrivals

from punctual import DelayClient

PAY_WITHIN = timedelta(seconds=3)  # days, in a shop


async def main() -> None:
    async with DelayClient(KAFKA, app_id=APP_ID) as client, arrivals("payment-reminders") as reminders:
        for order in ("order-1", "order-2", "order-3"):
            text = {"order": order, "text": "please pay"}
            await client.delay("payment-reminders", text, after=PAY_WITHIN, key=order, id=f"reminder-{order}")
            print(f"{order} is placed")

        await client.cancel("reminder-order-2")
        print("order-2 is paid, and its reminder cancelled")

        for _ in range(2):
            record = await anext(reminders)
            print(f"reminder: {record.value.decode()}")


asyncio.run(main())
