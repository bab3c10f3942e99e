"""Make a report every night at two, in Berlin's time zone, and once more at once.

make run NAME=nightly_report
"""

import asyncio

from topics import APP_ID, KAFKA, arrivals

from punctual import DelayClient


async def main() -> None:
    async with DelayClient(KAFKA, app_id=APP_ID) as client, arrivals("reports") as reports:
        await client.delay("reports", {"report": "sales"}, cron="0 2 * * *", zone="Europe/Berlin", id="nightly-report")
        print("planned for every night at 02:00")

        await client.deliver_now("nightly-report")  # one more: what is planned stays
        record = await anext(reports)
        run = dict(record.headers)["delay-id"].decode()
        print(f"made now, as {run}: {record.value.decode()}")

        await client.cancel("nightly-report")
        print("no more reports")


asyncio.run(main())
