"""Update a search index once editing pauses, and every few seconds while it does not.

Each edit replaces the pending update of its product, because both have the same ID. `no_later` is the maximum delay.

make run NAME=debounce_search_index
"""

import asyncio
from datetime import timedelta

from topics import APP_ID, KAFKA, arrivals

from punctual import DelayClient

REST, NO_LATER = timedelta(seconds=1), timedelta(seconds=3)
EDITS = 20


async def edit(client: DelayClient) -> None:
    for number in range(1, EDITS + 1):
        await client.delay("index-updates", f"edit {number}", after=REST, no_later=NO_LATER, id="index-product-7")
        await asyncio.sleep(0.25)
    print(f"edited {EDITS} times; at rest")


async def main() -> None:
    async with DelayClient(KAFKA, app_id=APP_ID) as client, arrivals("index-updates") as updates:
        editing = asyncio.create_task(edit(client))
        last = ""
        while last != f"edit {EDITS}":
            last = (await anext(updates)).value.decode()
            print(f"indexed with {last}")
        await editing


asyncio.run(main())
