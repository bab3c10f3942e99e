"""app.delay and the related methods, on any Faust app."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import faust
import pytest

from punctual.client.faust_methods import DelayMethods
from punctual.client.faust_retries import RetryMethods
from tests.punctual.client.conftest import Installation

pytestmark = pytest.mark.core

SOON = timedelta(minutes=15)


@pytest.fixture
async def shop(installation: Installation) -> AsyncIterator[DelayMethods]:
    class Shop(DelayMethods, faust.App):
        delay_app_id = installation.app_id

    app = Shop("shop", broker=f"kafka://{installation.bootstrap}")
    yield app
    await app.aclose()


async def test_a_faust_app_delays_and_commands(shop: DelayMethods, installation: Installation) -> None:
    message_id = await shop.delay("orders", {"n": 1}, after=SOON)
    await shop.reschedule(message_id, after=SOON)
    await shop.deliver_now(message_id)
    await shop.cancel(message_id)

    assert [message.value() for message in installation.requests(4)] == [b'{"n":1}', None, None, None]


async def test_calls_at_the_same_time_share_one_connection(shop: DelayMethods) -> None:
    made = []
    make = shop.make_delay_client

    def counted() -> object:
        made.append(make())
        return made[-1]

    shop.make_delay_client = counted  # type: ignore[method-assign, assignment]
    await asyncio.gather(*[shop.delay("orders", b"", after=SOON) for _ in range(5)])

    assert len(made) == 1


async def test_closing_disconnects_and_the_next_call_connects_again(shop: DelayMethods) -> None:
    await shop.delay("orders", b"", after=SOON)
    await shop.aclose()
    assert shop._delay_client is None
    assert await shop.delay("orders", b"", after=SOON, id="r-1") == "r-1"


def test_no_name_of_the_mixin_hides_one_of_fausts() -> None:
    names = {*vars(DelayMethods), *vars(RetryMethods)}
    ours = {name for name in names if not name.startswith("__")} - {"on_stop"}

    assert ours & set(dir(faust.App)) == set()
