"""A shop with much to deliver: the traffic in the console's screenshots."""

import asyncio
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from types import SimpleNamespace
from typing import Final

import aiohttp
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from app.dev.demo.installation import PARTITIONS
from app.dev.demo.story import CUSTOMERS, GOODS
from app.settings.settings import Settings
from punctual import DelayClient

#: Additional destinations to those of the demonstration, and their percentage of the pending messages.
SHARES: Final = {"reminders": 44, "orders": 21, "invoices": 14, "parcels": 12, "sms": 6, "newsletter": 3}
PENDING: Final = 6_000
FIRST_NUMBER: Final = 48_000
CUSTOMER: Final = "Margaret"
#: The message whose page is shown.
SNOOZED: Final = f"reminder-{FIRST_NUMBER}"
_AT_A_TIME: Final = 1_000
_HOURS: Final = 30
_DAYS: Final = 7
#: Messages a second, on average: most are due within seconds, the others within minutes. They come in waves.
_QUICK, _SLOW = 24, 6
_QUICK_S: Final = (1, 6)
#: Average delay of the other messages. The start schedules a full set, so that the flow is steady immediately.
_SLOW_S: Final = 900
_WAVE_S: Final = (210, 95)
_TICK_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class _Planned:
    to: str
    id: str
    after: timedelta


async def create_topics(settings: Settings) -> None:
    """Create the destinations that the demonstration does not have."""
    admin = AIOKafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap)
    await admin.start()
    try:
        missing = sorted({*SHARES, "reports"} - set(await admin.list_topics()))
        await admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in missing])
    finally:
        await admin.close()


async def fill(client: DelayClient, settings: Settings, random: Random) -> None:
    """Schedule the pending messages: more by day than by night, and fewer each day."""
    now = datetime.now(UTC)
    await client.pause(
        "newsletter",
        reason="maintenance of the mail server",
        by="grace@example.com",
        until=(now + timedelta(hours=14)).replace(minute=0, second=0, microsecond=0),
    )
    await client.limit("sms", "20/s burst 100", reason="contract with the provider", by="grace@example.com")
    batch = []
    for planned in (*_planned(random, now), *_on_their_way(random)):
        batch.append(_send(client, planned, random))
        if len(batch) == _AT_A_TIME:
            await asyncio.gather(*batch)
            batch.clear()
    await asyncio.gather(*batch)
    await client.delay(
        "reports", {"report": "sales"}, id="nightly-sales", cron="0 2 * * *", zone="Europe/Berlin", key="sales"
    )
    await client.delay("reports", {"report": "stock"}, id="stock", every=timedelta(minutes=30), key="stock")
    await client.delay(
        "invoices", {"run": "monthly"}, id="monthly-invoices", cron="30 6 1 * *", zone="Europe/Berlin", key="run"
    )
    await _snooze(client)
    await _fail(client, settings)


async def flow(client: DelayClient, random: Random) -> None:
    """Schedule messages that are due within seconds until cancelled, and cancel some."""
    loop = asyncio.get_running_loop()
    began, number, owed = loop.time(), FIRST_NUMBER + PENDING + _SLOW * _SLOW_S + 1, 0.0
    async with asyncio.TaskGroup() as group:
        while True:
            elapsed_s = loop.time() - began
            wave = sum(math.sin(2 * math.pi * elapsed_s / period_s) for period_s in _WAVE_S)
            owed += (_QUICK + _SLOW) * _TICK_S * (1 + 0.3 * wave)
            while owed >= 1:
                owed -= 1
                group.create_task(_come_and_go(client, number, random))
                number += 1
            await asyncio.sleep(_TICK_S)


async def send_again(url: str, to: str, instead: str) -> None:
    """Send the dead letter for a misspelt destination again, to the right one."""
    async with aiohttp.ClientSession(url) as session:
        async with session.get("/api/v1/dead-letters", params={"to": to}) as answer:
            row = (await answer.json())["rows"][0]
        page = f"/api/v1/dead-letters/{row['partition']}-{row['offset']}/resend"
        async with session.post(page, json={"headers": {"delay-to": instead}}) as answer:
            answer.raise_for_status()


def _planned(random: Random, now: datetime) -> Iterator[_Planned]:
    hours = [_busy((now + timedelta(hours=hour)).hour) for hour in range(_HOURS)]
    days = [0.75**day for day in range(_DAYS)]
    for number in range(FIRST_NUMBER + 1, FIRST_NUMBER + PENDING + 1):
        to = random.choices(list(SHARES), weights=list(SHARES.values()))[0]
        if to == "newsletter":
            after_s = random.gauss(20, 1) * 3_600
        elif random.random() < (0.1 if to == "invoices" else 0.7):
            hour = random.choices(range(_HOURS), weights=hours)[0]
            after_s = (hour + random.random()) * 3_600
        else:
            after_s = (1.2 + random.choices(range(_DAYS), weights=days)[0] + random.random()) * 86_400
        yield _Planned(to, _id(to, number), timedelta(seconds=max(60.0, after_s)))


def _on_their_way(random: Random) -> Iterator[_Planned]:
    """Return what would be pending of the traffic if it had begun long ago."""
    for number in range(FIRST_NUMBER + PENDING + 1, FIRST_NUMBER + PENDING + 1 + _SLOW * _SLOW_S):
        to = _of_traffic(random)
        yield _Planned(to, _id(to, number), timedelta(seconds=random.expovariate(1 / _SLOW_S)))


def _id(to: str, number: int) -> str:
    return f"{to if to == 'sms' else to.removesuffix('s')}-{number}"


def _of_traffic(random: Random) -> str:
    return random.choices(("reminders", "orders", "parcels", "sms"), weights=(50, 30, 15, 5))[0]


def _busy(hour: int) -> float:
    """Return how busy the shop is at an hour of the day, at most 1."""
    return 0.15 + 0.85 * max(0.0, math.sin(math.pi * (hour - 6) / 17)) ** 1.5 if hour >= 6 else 0.15


async def _send(client: DelayClient, planned: _Planned, random: Random) -> None:
    customer, count, what = random.choice(CUSTOMERS), random.randint(1, 9), random.choice(GOODS)
    value = {"customer": customer, "text": f"{count} x {what}"}
    await client.delay(planned.to, value, id=planned.id, key=customer.lower(), after=planned.after)


async def _come_and_go(client: DelayClient, number: int, random: Random) -> None:
    to = _of_traffic(random)
    quick = random.random() < _QUICK / (_QUICK + _SLOW)
    after_s = random.uniform(*_QUICK_S) if quick else random.expovariate(1 / _SLOW_S)
    planned = _Planned(to, _id(to, number), timedelta(seconds=after_s))
    await _send(client, planned, random)
    if random.random() < 0.1:
        await asyncio.sleep(after_s / 2)
        await client.cancel(planned.id)


async def _snooze(client: DelayClient) -> None:
    """Schedule the message whose page is shown, and postpone it as its customer requested."""
    value = {
        "order": FIRST_NUMBER,
        "customer": CUSTOMER,
        "text": "3 x espresso, 1 x saffron",
        "total": "31.40 EUR",
    }
    headers = {"content-type": "application/json", "sent-by": "checkout"}
    await client.delay(
        "reminders", value, id=SNOOZED, key=CUSTOMER.lower(), headers=headers, after=timedelta(minutes=45)
    )
    await asyncio.sleep(2)
    await client.reschedule(SNOOZED, after=timedelta(hours=3))


async def _fail(client: DelayClient, settings: Settings) -> None:
    """Send requests that become dead letters: misspelt destinations, an invalid due time, a last failed attempt."""
    failed = SimpleNamespace(
        topic="orders",
        partition=2,
        offset=8_140,
        key=b"tony",
        value=b'{"customer": "Tony", "text": "2 x honey"}',
        headers=[("delay-attempt", b"3")],
    )
    await client.retry(failed, max_attempts=3, error="PaymentDeclined: the card has expired")
    producer = AIOKafkaProducer(bootstrap_servers=settings.kafka.bootstrap)
    await producer.start()
    try:
        for number, (name, headers) in enumerate(
            (
                ("order", {"delay-to": "oders", "delay-after": "1s"}),
                ("reminder", {"delay-to": "remindres", "delay-after": "2s"}),
                ("reminder", {"delay-to": "remindres", "delay-after": "2s"}),
                ("invoice", {"delay-to": "invoices", "delay-at": "tomorrow"}),
            )
        ):
            named = {**headers, "delay-id": f"{name}-{FIRST_NUMBER - 17 * number - 3}"}
            value = b'{"customer": "%s"}' % CUSTOMERS[number].encode()
            key = CUSTOMERS[number].lower().encode()
            said = [(name, text.encode()) for name, text in named.items()]
            await producer.send_and_wait(f"{settings.topics.app_id}-requests", value, key=key, headers=said)
    finally:
        await producer.stop()
