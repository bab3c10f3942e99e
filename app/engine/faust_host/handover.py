"""Assigned partitions go to their ownership: in place of Faust's recovery, and of the tables that would have it."""

import asyncio
import logging
from typing import Any

from faust.tables.manager import TableManager
from faust.types import TP
from mode import Service

from app.base.errors import InputGone
from app.base.process.fatal import end_process
from app.kafka.metadata.leave_group import leave_group

log = logging.getLogger(__name__)

_SENSOR_S = 0.1


class Handover(Service):
    """Stands where Faust's recovery stands (tables/recovery.py): hands partitions to their ownership instead."""

    def __init__(self, app: Any, **kwargs: Any) -> None:
        """Serve `app`."""
        super().__init__(**kwargs)
        self.app = app
        self.completed = asyncio.Event()

    def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Leave it to the revocation signal, which can wait."""

    async def on_rebalance(self, assigned: set[TP], *_: Any) -> None:
        """Begin to take the assigned partitions in; does not wait for them, so that the group goes on."""
        consumer, generation = self.app.consumer, self.app.consumer_generation_id
        consumer.forget()
        numbers = {tp.partition for tp in assigned if tp.topic == self.app.settings.requests}
        ownership = self.app.engine.ownership
        missing = ownership.topics - {tp.topic for tp in assigned}
        if assigned and missing:
            # A static member that comes back is given the same assignment again, without the topic.
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
        # Faust ends the rebalance's sensor after this returns (app/base.py:1778), and wants it to be there then.
        asyncio.get_running_loop().call_later(_SENSOR_S, self.app.on_rebalance_end)
        log.info("assigned partitions %s", sorted(numbers))


class Tables(TableManager):
    """Faust's table manager without its recovery: the changelog is not part of the group's subscription."""

    _recovery: Handover | None = None

    @property
    def recovery(self) -> Handover:
        """What takes assigned partitions in."""
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
