"""The maximum parts of JSON, and the maximum headers and fields of a message."""

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
import pytest

from app.base.listening.limits import JSON_PARTS
from app.serve.messages import record_form, routes, short_form
from app.serve.messages.json_input import check_json, check_text
from app.serve.web.problem import Problem
from punctual.batches import MAX_HEADERS
from punctual.contract.json_fields import MAX_FIELDS

if TYPE_CHECKING:
    from tests.app.gateway.conftest import Stage


@pytest.mark.parametrize("part", [b",", b"[", b"{"])
def test_json_has_a_maximum_number_of_parts(part: bytes) -> None:
    check_json(part * JSON_PARTS)

    with pytest.raises(Problem, match="commas and brackets") as refused:
        check_json(part * (JSON_PARTS + 1))
    assert refused.value.status == 413


def test_long_json_with_few_parts_is_accepted() -> None:
    check_json(b'{"to":"orders","value":"' + b"x" * 4_000_000 + b'"}')


_MESSAGE = {"to": "orders", "after": 0}
_PARTS = JSON_PARTS - 100


async def test_a_message_has_no_more_headers_than_a_record_may_have(stage: "Stage") -> None:
    """Those that a gateway adds count too: of a record with more, a worker would refuse the whole batch."""
    status, _ = await stage.ask(
        "POST", "/api/v1/messages", _MESSAGE | {"id": "one", "headers": _headers(MAX_HEADERS - 10)}
    )
    assert status == 202
    [taken] = await stage.spooled()
    added = len(taken.headers) - (MAX_HEADERS - 10)

    for count, status in ((MAX_HEADERS - added, 202), (MAX_HEADERS - added + 1, 413), (2_000, 413)):
        for headers in (_headers(count), list(map(list, _headers(count).items()))):
            answer = await stage.ask("POST", "/api/v1/messages", _MESSAGE | {"id": "two", "headers": headers})
            assert answer[0] == status, answer
    assert answer[1]["type"] == "/problems/too-large"
    assert answer[1]["detail"] == "The message has 2,000 headers, and a record has at most 1,000. Send fewer."
    assert answer[1]["errors"][0]["pointer"] == "#/headers"

    form = {"headers": [{"name": name, "value": ""} for name in _headers(1_001)]}
    status, said = await stage.ask("POST", "/api/v1/messages", {"partition_id": 0} | form)
    assert (status, said["type"]) == (413, "/problems/too-large")


def _headers(count: int) -> dict[str, str]:
    return {f"header-{number}": "" for number in range(count)}


async def test_a_message_has_a_maximum_of_fields(stage: "Stage") -> None:
    more = {f"{number}": 1 for number in range(MAX_FIELDS)}
    status, said = await stage.ask("POST", "/api/v1/messages", _MESSAGE | more)
    assert (status, said["type"]) == (413, "/problems/too-large")
    assert said["detail"] == "A message is an object of more than 1,000 fields, which is the maximum. Send fewer."


def _read(raw: bytes) -> None:
    """Read a message as POST /api/v1/messages and the records of Confluent's address are."""
    for draft in (short_form.draft, record_form.draft):
        with contextlib.suppress(Problem):
            check_text(raw)
            check_json(raw)
            routes._is_record(raw)
            draft(raw, "delay-requests")


@pytest.mark.parametrize(
    ("raw", "times"),
    [
        (b'{"headers":[' + b",".join([b'{"name":"a","value":"eA=="}'] * (_PARTS // 3)) + b"]}", 8),
        (b'{"to":"t"' + b',"to":"t"' * _PARTS + b"}", 4),
        (b'{"to":"t","after":1,"value":"' + b"a" * (4 << 20) + b'"}', 30),
    ],
    ids=["headers", "a field again and again", "text"],
)
def test_reading_a_message_costs_little_more_than_decoding_it(raw: bytes, times: int) -> None:
    def cost() -> float:
        return _seconds(lambda: _read(raw)) / _seconds(lambda: msgspec.json.decode(raw))

    assert min(cost() for _ in range(3)) < times


def _seconds(act: Callable[[], object]) -> float:
    began = time.thread_time()
    act()
    return time.thread_time() - began
