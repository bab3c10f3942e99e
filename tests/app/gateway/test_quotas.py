"""A namespace at its quota accepts commands, and no messages."""

import json
from typing import Any

import pytest

from app.engine.reports.reader import decode_progress
from app.gateway.workers import Workers
from tests.app.gateway.conftest import Stage


@pytest.fixture
def env() -> dict[str, str]:
    return {
        "DELAY_NAMESPACES": "shop,mail",
        "DELAY_QUOTAS": "shop=messages:10,mail=bytes:1000",
        "DELAY_PARTITIONS": "2",
    }


class _Told:
    def __init__(self, partition: int, namespaces: dict[str, Any]) -> None:
        fields = {"partition": partition, "at": 1, "fired_to": 1, "positions": {}, "pending": {}, "overdue": 0}
        told = {**fields, "worker": "http://w", "version": "1", "namespaces": namespaces}
        self.progress = decode_progress(b"%d" % partition, json.dumps(told).encode())


_REPORTS: dict[int, _Told] = {}


def report(monkeypatch: pytest.MonkeyPatch, *shares: dict[str, Any]) -> None:
    _REPORTS.clear()
    _REPORTS.update({number: _Told(number, share) for number, share in enumerate(shares)})
    monkeypatch.setattr(Workers, "reports", _REPORTS)


def message(id_: str) -> dict[str, Any]:
    return {"to": "orders", "after": "PT1H", "id": id_}


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    report(
        monkeypatch,
        {"shop": {"messages": 6, "bytes": 60}, "mail": {"messages": 1, "bytes": 500}},
        {"shop": {"messages": 4, "bytes": 40}},
    )


@pytest.mark.usefixtures("full")
async def test_a_full_namespace_accepts_no_message_and_another_namespace_does(stage: Stage) -> None:
    status, said = await stage.ask("POST", "/api/v1/messages", message("shop/1"))
    assert (status, said["type"]) == (429, "/problems/quota")

    assert (await stage.ask("POST", "/api/v1/messages", message("mail/1")))[0] == 202
    assert (await stage.ask("POST", "/api/v1/messages", message("nobodys")))[0] == 202


@pytest.mark.usefixtures("full")
async def test_a_full_namespace_accepts_commands(stage: Stage) -> None:
    assert (await stage.ask("DELETE", "/api/v1/messages/shop/1"))[0] == 202


@pytest.mark.usefixtures("full")
async def test_messages_of_other_namespaces_in_a_batch_are_accepted(stage: Stage) -> None:
    status, said = await stage.ask("POST", "/api/v1/messages", [message("shop/1"), message("mail/1")])

    assert status == 207
    assert [one["status"] for one in said["results"]] == [429, 202]


async def test_a_namespace_with_room_again_accepts_messages(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    report(monkeypatch, {"shop": {"messages": 9, "bytes": 90}})

    assert (await stage.ask("POST", "/api/v1/messages", message("shop/1")))[0] == 202


@pytest.mark.usefixtures("full")
async def test_messages_of_a_batch_that_were_refused_are_accepted_when_its_key_is_repeated(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, key = [message("shop/1"), message("mail/1")], {"Idempotency-Key": '"k"'}
    assert (await stage.ask("POST", "/api/v1/messages", batch, headers=key))[0] == 207
    report(monkeypatch, {})

    status, said = await stage.ask("POST", "/api/v1/messages", batch, headers=key)

    assert (status, [one["status"] for one in said["results"]]) == (202, [202, 202])
    assert (await stage.ask("POST", "/api/v1/messages", batch, headers=key)) == (status, said)
    mails = [one for one in await stage.spooled() if one.id == "mail/1"]
    assert len(mails) == 2
    assert mails[0] == mails[1], "the same message, which the worker recognises"
