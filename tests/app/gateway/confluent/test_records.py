"""Records as Confluent's REST proxy takes them: many that come in one piece are taken in groups."""

import json
from typing import Any

import pytest

from app.gateway.confluent import records
from app.gateway.confluent.json_stream import NotJson, Splitter
from app.gateway.desk import GatewayDesk
from tests.app.gateway.conftest import Stage
from tests.app.gateway.test_routes import RECORDS


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many records were handed in each time."""
    found, hand_in = list[int](), GatewayDesk.hand_in

    async def counted(desk: GatewayDesk, request: Any, count: int, *rest: Any) -> Any:
        found.append(count)
        return await hand_in(desk, request, count, *rest)

    monkeypatch.setattr(GatewayDesk, "hand_in", counted)
    monkeypatch.setattr(records, "MOST", 5)
    return found


async def sent(stage: Stage, body: bytes) -> list[dict[str, Any]]:
    """Send records in one piece; return the reports."""
    async with stage.client.post(RECORDS, data=body, headers={"Content-Type": "application/json"}) as answer:
        return [json.loads(line) for line in (await answer.read()).splitlines()]


def record(number: int) -> bytes:
    headers = [{"name": "delay-to", "value": "b3JkZXJz"}, {"name": "delay-after", "value": "UFQxSA=="}]
    return json.dumps({"value": {"type": "STRING", "data": "x" * number}, "headers": headers}).encode()


async def test_records_of_one_chunk_are_accepted_in_batches(stage: Stage, groups: list[int]) -> None:
    reports = await sent(stage, b"".join(record(number) for number in range(12)))

    assert groups == [5, 5, 2]
    assert [report["value"]["size"] for report in reports] == list(range(12)), "in their order"
    assert len(await stage.spooled()) == 12


async def test_only_records_before_an_error_are_accepted(stage: Stage, groups: list[int]) -> None:
    reports = await sent(stage, b"".join(map(record, range(7))) + b"nonsense" + record(8))

    assert groups == [5, 2]
    assert [report["error_code"] for report in reports] == [200] * 7 + [400]
    assert "Error processing JSON" in reports[-1]["message"]
    assert len(await stage.spooled()) == 7


def test_other_tasks_run_while_a_chunk_is_split() -> None:
    piece = b'{"":[' + b'"",' * 100_000 + b"1]}"
    parts = list(records._cut(Splitter(1 << 20), piece, 1_000))
    assert parts[-1] == [piece]
    assert len(parts) > len(piece) // (8 << 10)
    assert not any(parts[:-1])


def test_records_before_an_error_are_split_off_first() -> None:
    parts = records._cut(Splitter(100), b"{}" * 3 + b"1", 2)
    assert [next(parts), next(parts)] == [[b"{}", b"{}"], [b"{}"]]
    with pytest.raises(NotJson):
        next(parts)
