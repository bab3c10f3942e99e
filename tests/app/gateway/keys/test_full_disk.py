"""A key that the disk does not take is refused before its request is carried out."""

from types import SimpleNamespace
from typing import Any

import pytest

from app.gateway.keys.digests import FirstReceipt
from app.gateway.keys.errors import KeysUnwritable
from app.gateway.keys.keys import Keys
from app.gateway.keys.receipt import GivenAnswer


async def submit(_: FirstReceipt) -> tuple[GivenAnswer, bool]:
    raise AssertionError("it is carried out")


@pytest.mark.parametrize(("enough", "failed", "why"), [(False, None, "MiB of disk are free"), (True, "EIO", "EIO")])
async def test_nothing_is_carried_out(enough: bool, failed: str | None, why: str) -> None:  # noqa: FBT001 - pytest's
    store: Any = SimpleNamespace(known=lambda *_: None, failed=failed)
    room: Any = SimpleNamespace(enough=lambda: enough)
    follower: Any = SimpleNamespace(begun=None)
    keys = Keys("gateway", store, follower, lambda: 1, room)

    with pytest.raises(KeysUnwritable, match=why):
        await keys.once("ann", "k", b"request", submit)
