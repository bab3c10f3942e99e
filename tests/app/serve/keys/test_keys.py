"""A request is carried out once for its key: two gateways on one real Kafka."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from app.base.clock import Clock
from app.base.process.disk_room import DiskRoom
from app.kafka.metadata.cluster import Cluster
from app.kafka.produce.sender import Sender
from app.serve.keys.keys import Keys
from app.serve.keys.once import KeyService
from app.serve.keys.receipt import FirstReceipt, GivenAnswer, Receipt, key_digest, request_digest
from app.serve.keys.store import DAY_MS, KeyStore
from app.serve.web.problem import Problem
from app.settings.settings import Settings
from punctual.contract.home import key_partition
from tests.harness.waiting import LIMIT_S
from tests.integration.installation import new_app_id, topics_removed

pytestmark = pytest.mark.core

if TYPE_CHECKING:
    from app.serve.keys.follower import ReceiptFollower, ReceiptWriter

REQUEST = request_digest("POST", "/api/v1/messages", b"{}")
OTHER = request_digest("POST", "/api/v1/messages", b"[]")


class Crash(Exception):
    """The gateway ends here."""


class Gateway:
    """The keys of a gateway, and a clock that can be set ahead."""

    def __init__(self, settings: Settings, path: Path) -> None:
        path.mkdir(exist_ok=True)
        self.ahead_ms = 0
        self.sender: asyncio.Future[Sender] = asyncio.get_running_loop().create_future()
        self.service = KeyService(
            settings.kafka, settings.topics, path, lambda: Clock.wall_ms() + self.ahead_ms, lambda: self.sender
        )
        self.keys = self.service.open()
        self.orders: list[FirstReceipt] = []

    async def ask(
        self, key: str = "1", request: bytes = REQUEST, *, end: Exception | None = None, stays: bool = True
    ) -> tuple[GivenAnswer, bool]:
        async def submit(asked: FirstReceipt) -> tuple[GivenAnswer, bool]:
            self.orders.append(asked)
            await asyncio.sleep(0.01)
            if end is not None:
                raise end
            return GivenAnswer(201, f"{asked.asked_ms}"), stays

        return await self.keys.once("shop", key, request, submit)

    def knows(self, key: str) -> bool:
        known = self.keys._store.known(key_digest("shop", key), Clock.wall_ms() + self.ahead_ms)
        return known is not None and known.answer is not None


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():  # noqa: ASYNC110 - it is another gateway's
            await asyncio.sleep(0.02)


class Gateways:
    """Gateways of one installation; each is connected when it is asked to be."""

    def __init__(self, settings: Settings, path: Path, sender: Sender) -> None:
        self._settings, self._path, self._sender = settings, path, sender
        self._opened = list[Gateway]()

    def open(self, name: str) -> Gateway:
        """Open one for which brokers are down."""
        self._opened.append(Gateway(self._settings, self._path / name))
        self._opened[-1].service.follower.begun.set()
        return self._opened[-1]

    async def connect(self, gateway: Gateway) -> Gateway:
        """Give one its connection, and wait until it has read what there is."""
        gateway.sender.set_result(self._sender)
        gateway.service.begin()
        await asyncio.wait_for(gateway.service.follower.caught_up.wait(), LIMIT_S)
        return gateway

    async def start(self, name: str) -> Gateway:
        """Open and connect one."""
        return await self.connect(self.open(name))

    async def close(self) -> None:
        """End all."""
        for gateway in self._opened:
            await gateway.service.end()


@pytest.fixture
async def gateways(bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Gateways]:
    """Gateways for which slow brokers are not down: while they are, each gateway judges keys by itself."""
    monkeypatch.setattr("app.serve.keys.keys.PATIENCE_S", LIMIT_S)
    monkeypatch.setattr("app.serve.keys.follower.PATIENCE_S", LIMIT_S)
    app_id = new_app_id("keys")
    env = {"KAFKA_BOOTSTRAP_SERVERS": bootstrap, "DELAY_APP_ID": app_id, "DELAY_REPLICATION_FACTOR": "1"}
    settings = Settings.from_env(env)
    cluster = Cluster(bootstrap)
    await cluster.start(settings.topics.requests)
    sender = Sender(cluster, recalls=True)
    await sender.start()
    with topics_removed(bootstrap, app_id):
        gateways = Gateways(settings, tmp_path, sender)
        try:
            yield gateways
        finally:
            await gateways.close()
            await sender.stop()
            await cluster.stop()


async def test_one_of_two_gateways_carries_out_a_request_that_both_get(gateways: Gateways) -> None:
    one, two = await gateways.start("one"), await gateways.start("two")
    keys = [f"key-{number}" for number in range(50)]

    asked = [gateway.ask(key) for key in keys for gateway in (one, two)]
    came = await asyncio.gather(*asked, return_exceptions=True)

    for first, second in zip(came[::2], came[1::2], strict=True):
        answers = [outcome for outcome in (first, second) if not isinstance(outcome, BaseException)]
        later = [outcome for outcome in (first, second) if isinstance(outcome, BaseException)]
        assert len(answers) == 1, (first, second)
        assert all(isinstance(outcome, Problem) and outcome.kind.name == "in-progress" for outcome in later)
    assert len(one.orders) + len(two.orders) == len(keys)
    await until(lambda: all(gateway.knows(key) for gateway in (one, two) for key in keys))
    for key in keys:
        (first_answer, first_old), (second_answer, second_old) = await one.ask(key), await two.ask(key)
        assert first_answer == second_answer
        assert first_old
        assert second_old
    assert len(one.orders) + len(two.orders) == len(keys)


async def test_both_gateways_refuse_another_request_with_the_key(gateways: Gateways) -> None:
    one, two = await gateways.start("one"), await gateways.start("two")
    await one.ask()

    await until(lambda: two.knows("1"))
    for gateway in (one, two):
        with pytest.raises(Problem, match="was used for another request") as error:
            await gateway.ask(request=OTHER)
        assert error.value.kind.name == "idempotency-key-reused"


async def test_another_gateway_completes_an_unfinished_request_as_the_same_message(gateways: Gateways) -> None:
    one, two = await gateways.start("one"), await gateways.start("two")
    with pytest.raises(Crash):
        await one.ask(end=Crash())

    with pytest.raises(Problem, match="still in progress") as error:
        await two.ask()
    assert error.value.kind.name == "in-progress"
    two.ahead_ms = 11_000
    answer, old = await two.ask()

    assert not old
    assert one.orders == two.orders
    await until(lambda: one.knows("1"))
    assert (await one.ask())[0] == answer
    assert len(one.orders) == 1


async def test_after_an_error_the_same_gateway_accepts_the_request_again(gateways: Gateways) -> None:
    one = await gateways.start("one")
    with pytest.raises(Crash):
        await one.ask(end=Crash())

    await one.ask()

    assert one.orders[0] == one.orders[1]


async def test_a_temporary_answer_is_not_kept(gateways: Gateways) -> None:
    one = await gateways.start("one")

    assert (await one.ask(stays=False))[1] is False
    assert (await one.ask())[1] is False

    assert one.orders[0] == one.orders[1]


async def test_a_key_is_new_after_a_day(gateways: Gateways) -> None:
    one = await gateways.start("one")
    await one.ask()
    one.ahead_ms = DAY_MS - 60_000
    await one.ask()
    assert len(one.orders) == 1

    one.ahead_ms = DAY_MS + 1_000
    await one.ask(request=OTHER)

    assert len(one.orders) == 2
    assert one.orders[1].seed != one.orders[0].seed


async def test_a_gateway_that_starts_knows_the_keys_of_others(gateways: Gateways) -> None:
    answer, _ = await (await gateways.start("one")).ask()

    late = await gateways.start("late")

    assert await late.ask() == (answer, True)


async def test_without_kafka_a_key_is_accepted_once_and_others_learn_it_later(gateways: Gateways) -> None:
    alone, other = gateways.open("alone"), await gateways.start("other")
    answer, old = await alone.ask()
    assert not old
    assert await alone.ask() == (answer, True)
    with pytest.raises(Problem, match="was used for another request") as error:
        await alone.ask(request=OTHER)
    assert error.value.kind.name == "idempotency-key-reused"

    await gateways.connect(alone)
    await until(lambda: other.knows("1"))

    assert await other.ask() == (answer, True)
    assert len(alone.orders) == 1


async def test_two_gateways_that_could_not_reach_each_other_make_the_same_id(gateways: Gateways) -> None:
    one, two = gateways.open("one"), gateways.open("two")
    first, second = (await one.ask())[0], (await two.ask())[0]

    await gateways.connect(one)
    await gateways.connect(two)

    assert one.orders[0].seed == two.orders[0].seed
    assert (await one.ask())[0] == first, "each gateway repeats its own answer"
    assert (await two.ask())[0] == second


async def test_a_partition_that_is_down_does_not_hold_up_keys_of_other_partitions(tmp_path: Path) -> None:
    """Nor does it stop the removal of expired keys."""
    partitions, told, store = 4, list[bytes](), KeyStore(tmp_path / "keys")
    follower, writer = SimpleNamespace(partitions=partitions), SimpleNamespace(down=lambda _: False)
    keys = Keys(
        "gateway",
        store,
        cast("ReceiptFollower", follower),
        Clock.wall_ms,
        DiskRoom(Path("/")),
        without_kafka=True,
    )
    digests = [key_digest("scope", f"{number}") for number in range(40)]
    for digest in digests:
        store.accept(digest, Receipt(b"request", "gateway", Clock.wall_ms()))
    down = key_partition(digests[0], partitions)

    def write(number: int, digest: bytes, _value: bytes) -> asyncio.Future[int]:
        stored: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if number != down:
            stored.set_result(0)
            told.append(digest)
        return stored

    writer.write = write
    keys.connected(cast("ReceiptWriter", writer))
    alive = [digest for digest in digests if key_partition(digest, partitions) != down]

    assert await keys.pay() == len(alive)
    assert sorted(told) == sorted(alive)
    assert {digest for digest, _ in store.owed(100)} == set(digests) - set(alive)
    store.close()
