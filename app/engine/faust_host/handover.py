"""Hands assigned partitions to their ownership, in place of Faust's recovery and the tables that would use it.

Also handles the two cases in which Faust or aiokafka would leave a worker alive and idle.
"""

import asyncio
import logging
from typing import Any

import aiokafka
from faust.assignor.client_assignment import ClientMetadata
from faust.assignor.partition_assignor import PartitionAssignor
from faust.tables.manager import TableManager
from faust.types import TP
from mode import Service

from app.base.errors import GroupLost, InputGone
from app.base.process.fatal import end_process
from app.kafka.metadata.consumer_group import leave_group

log = logging.getLogger(__name__)

_SENSOR_S = 0.1


class Handover(Service):
    """Replaces Faust's recovery (tables/recovery.py): hands partitions to their ownership."""

    def __init__(self, app: Any, **kwargs: Any) -> None:
        """Hand over the partitions of `app`."""
        super().__init__(**kwargs)
        self.app = app
        self.completed = asyncio.Event()

    def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Do nothing: the revocation signal does the work, because it can wait."""

    async def on_rebalance(self, assigned: set[TP], *_: Any) -> None:
        """Start to acquire the assigned partitions, without waiting, so that the group can continue."""
        consumer, generation = self.app.consumer, self.app.consumer_generation_id
        consumer.forget()
        numbers = {tp.partition for tp in assigned if tp.topic == self.app.settings.topics.requests}
        ownership = self.app.engine.ownership
        missing = ownership.topics - {tp.topic for tp in assigned}
        if assigned and missing:
            # A returning static member would get the same assignment again, without the topic.
            await leave_group(self.app.engine.cluster, self.app.conf.id, self.app.conf.consumer_group_instance_id)
            end_process(InputGone(missing))
        await ownership.revoke()
        await consumer.settle()
        consumer.pause_partitions(assigned)
        self.app.flow_control.resume()
        consumer.resume_flow()
        await self.app._fetcher.maybe_start()
        await ownership.assign(numbers, generation)
        self.completed.set()
        self.app.tables.on_actives_ready()
        self.app.tables.on_standbys_ready()
        # Faust ends the rebalance's sensor after this returns (app/base.py:1778), and needs it until then.
        asyncio.get_running_loop().call_later(_SENSOR_S, self.app.on_rebalance_end)
        log.info("assigned partitions %s", sorted(numbers))


class Tables(TableManager):
    """Faust's table manager without its recovery: the changelog is not part of the group's subscription."""

    _recovery: Handover | None = None

    @property
    def recovery(self) -> Handover:
        """The service that receives assigned partitions."""
        if self._recovery is None:
            self._recovery = Handover(self.app, beacon=self.beacon, loop=self.loop)
        return self._recovery

    async def on_start(self) -> None:
        """Start at once: Faust sleeps a second here (tables/manager.py:140)."""
        await self._update_channels()
        await self.recovery.start()

    async def _update_channels(self) -> None:
        self._tables_finalized.set()
        for table in self.values():
            await table.maybe_start()
        self._tables_registered.set()


class Assignor(PartitionAssignor):
    """Accepts an assignment that was made for this member under another address.

    A returning static member gets its former assignment, with its former address (PORT, WORKER_URL). Faust asserts that
    the address is the same (partition_assignor.py:144), which would end the member's work.
    """

    def on_assignment(self, assignment: Any) -> None:
        """Apply an assignment, with this member's address."""
        given = ClientMetadata.loads(self._decompress(assignment.user_data))
        moved = self._compress(given.derive(url=str(self._url)).dumps())
        super().on_assignment(type(assignment)(assignment.version, assignment.assignment, moved))


def check_coordinator(consumer: aiokafka.AIOKafkaConsumer | None) -> None:
    """Raise GroupLost if the coordinator of a consumer has ended, or was refused by its broker.

    The coordinator keeps the consumer in its group. aiokafka's coordinator ends at an error that it does not expect
    (consumer/group_coordinator.py:593), and reports a refusal only to the next fetch (`_push_error_to_user`): a worker
    without partitions never fetches.
    """
    coordinator = getattr(consumer, "_coordinator", None)
    refusal = getattr(coordinator, "_pending_exception", None)
    if refusal is not None:
        raise GroupLost(refusal)
    task = getattr(coordinator, "_coordination_task", None)
    if task is not None and task.done() and not task.cancelled() and task.exception() is not None:
        raise GroupLost(task.exception())
