"""A key that the disk or Kafka does not take is refused before its request is carried out."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from app.serve.keys.keys import Keys
from app.serve.keys.receipt import FirstReceipt, GivenAnswer
from app.serve.keys.store import KeysUnwritable
from app.serve.web.problem import Problem


async def submit(_: FirstReceipt) -> tuple[GivenAnswer, bool]:
    raise AssertionError("it is carried out")


@pytest.mark.parametrize(("enough", "failed", "why"), [(False, None, "MiB of disk are free"), (True, "EIO", "EIO")])
async def test_without_disk_space_requests_with_a_key_are_not_carried_out(
    enough: bool,  # noqa: FBT001 - pytest's
    failed: str | None,
    why: str,
) -> None:
    store: Any = SimpleNamespace(known=lambda *_: None, failed=failed)
    room: Any = SimpleNamespace(enough=lambda: enough)
    follower: Any = SimpleNamespace(begun=None)
    keys = Keys("gateway", store, follower, lambda: 1, room, without_kafka=True)

    with pytest.raises(KeysUnwritable, match=why):
        await keys.once("ann", "k", b"request", submit)


async def test_a_key_that_kafka_does_not_store_is_refused_where_requests_need_kafka() -> None:
    store: Any = SimpleNamespace(known=lambda *_: None, failed=None)
    room: Any = SimpleNamespace(enough=lambda: True)
    begun = asyncio.Event()
    begun.set()
    follower: Any = SimpleNamespace(begun=begun, partitions=0)
    keys = Keys("worker", store, follower, lambda: 1, room, without_kafka=False)

    with pytest.raises(Problem, match="nothing was done") as error:
        await keys.once("ann", "k", b"request", submit)
    assert error.value.kind.name == "kafka-unavailable"
