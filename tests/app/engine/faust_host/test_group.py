"""The consumer group: a member that moves keeps its partitions, one whose coordinator has ended says so."""

import asyncio
from types import SimpleNamespace
from typing import Any

import aiokafka.errors
import faust
import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from faust.assignor.client_assignment import ClientAssignment, ClientMetadata

from app.base.errors import GroupLost
from app.engine.faust_host import consumer as module
from app.engine.faust_host.consumer import Consumer
from app.engine.faust_host.handover import Assignor, check_coordinator


def assignment(url: str) -> ConsumerProtocolMemberAssignment:
    """Return partition 1 of `requests` to a member at an address."""
    given = ClientMetadata(ClientAssignment({"requests": [1]}, {}), url, {})
    return ConsumerProtocolMemberAssignment(0, [("requests", [1])], Assignor._compress(given.dumps()))


@pytest.mark.parametrize("url", ["http://here:6066", "http://there:6066"])
def test_a_static_member_keeps_its_partitions_when_its_address_changes(url: str) -> None:
    app = faust.App("delay", canonical_url="http://here:6066", store="memory://", PartitionAssignor=Assignor)
    assignor = Assignor(app)
    assignor.on_assignment(assignment(url))

    assert assignor.assigned_actives() == {("requests", 1)}


def consumer(task: Any) -> Any:
    """Make a consumer whose coordinator is this task."""
    return SimpleNamespace(_coordinator=SimpleNamespace(_coordination_task=task))


async def test_a_coordinator_that_has_ended_is_missed() -> None:
    async def ends(error: Exception | None = None) -> None:
        if error is not None:
            raise error

    running = asyncio.get_running_loop().create_task(asyncio.sleep(60))
    quiet = asyncio.get_running_loop().create_task(ends())
    broken = asyncio.get_running_loop().create_task(ends(aiokafka.errors.KafkaError("assertion")))
    await asyncio.wait([quiet, broken])

    for fine in (None, SimpleNamespace(), consumer(running), consumer(quiet)):
        check_coordinator(fine)
    with pytest.raises(GroupLost, match=r"has lost its consumer group: KafkaError: assertion. The process ends"):
        check_coordinator(consumer(broken))
    running.cancel()
    await asyncio.wait([running])
    check_coordinator(consumer(running))


def test_a_coordinator_that_its_broker_refuses_is_missed() -> None:
    """The next fetch would raise the error, and a worker without partitions never fetches."""
    refused: Any = consumer(None)
    refused._coordinator._pending_exception = aiokafka.errors.InvalidSessionTimeoutError("6000")
    with pytest.raises(GroupLost, match="InvalidSessionTimeoutError"):
        check_coordinator(refused)


async def test_a_fetch_that_a_broker_refuses_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(**_: Any) -> None:
        raise aiokafka.errors.GroupAuthorizationFailedError("delay")

    def end(error: BaseException) -> None:
        raise error

    monkeypatch.setattr(module, "end_process", end)
    host: Any = SimpleNamespace(_quiet=asyncio.Event(), consumer_stopped_errors=(), _getmany=refused)
    with pytest.raises(GroupLost, match="GroupAuthorizationFailedError"):
        await Consumer._fetch(host, set(), 0.1)
    assert host._quiet.is_set()
