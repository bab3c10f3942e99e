"""Snooze a reminder before and after its delivery, and then deliver it at once.

make run NAME=snooze
"""

import asyncio
from datetime import timedelta

from topics import APP_ID, KAFKA, arrivals

from punctual import DelayClient

SOON, LATER = timedelta(seconds=2), timedelta(hours=1)


async def main() -> None:
    async with DelayClient(KAFKA, app_id=APP_ID) as client, arrivals("reminders") as reminders:
        await client.delay("reminders", "call the dentist", after=LATER, id="reminder-7")
        await client.reschedule("reminder-7", after=SOON)
        print("in two seconds will do")
        record = await anext(reminders)
        print(f"{record.value.decode()}!")

        await client.delay("reminders", record.value, after=LATER, id="reminder-7")  # it has come: ask anew
        print("snoozed for an hour")
        await client.deliver_now("reminder-7")
        print("no, now")
        record = await anext(reminders)
        print(f"{record.value.decode()}!")


asyncio.run(main())
