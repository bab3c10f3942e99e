"""What a worker sees to every second, beside its partitions' work: destinations, disk, group, settings."""

import asyncio
import logging
import shutil
from typing import IO, TYPE_CHECKING, Any

import aiokafka.errors

from app.base.process.datadir import check
from app.engine.banner import Readiness
from app.engine.faust_host import group
from app.engine.reports.agreement import Agreement
from app.engine.steps.route import HTTP

if TYPE_CHECKING:
    from app.engine.engine import Engine

log = logging.getLogger(__name__)

_EVERY_S = 1.0
_METADATA_S = 60.0
_IDLE_S = 3_600.0


class Housekeeping:
    """Serves one engine."""

    def __init__(self, engine: "Engine", app: Any, lock: IO[bytes], agreement: Agreement) -> None:
        """Look after `engine`, the consumer of the Faust `app`, and the data directory that is held by `lock`.

        `agreement` hears of what workers report.
        """
        self._engine, self._app, self._lock, self._agreement = engine, app, lock, agreement

    async def run(self) -> None:
        """Go on until cancelled."""
        engine, now = self._engine, asyncio.get_running_loop().time
        learned = swept = now()
        readiness = Readiness(engine.settings)
        while True:
            await asyncio.sleep(_EVERY_S)
            self._give_up()
            self._mind_the_disk()
            self._mind_the_group()
            engine.standstill.look()
            readiness.look(engine.owned, engine.ready_reason())
            self._agreement.look(engine.reader.reports.values(), engine.clock.wall_ms())
            if now() - learned > _METADATA_S:
                learned = now()
                await self._refresh_destinations()
            if now() - swept > _IDLE_S:
                swept = now()
                for sender in (engine.sender, *(target.sender for target in engine.targets.values())):
                    sender.forget_idle()

    def _give_up(self) -> None:
        """Give up on destinations that have taken nothing for longer than DELAY_GIVE_UP, and what nobody waits for."""
        self._engine.dispatcher.let_go()
        partitions = self._engine.due.partitions.values()
        routes = {route for partition in partitions for route in partition.in_flight.routes}
        given_up = [route for route in routes if route[2] != HTTP and self._engine.dispatcher.give_up(route)]
        if given_up:
            self._engine.due.notify()

    async def _refresh_destinations(self) -> None:
        for target in self._engine.targets.values():
            try:
                await target.cluster.refresh(target.cluster.known())
            except aiokafka.errors.KafkaError as error:
                log.warning("no metadata of destinations: %r", error)

    def _mind_the_disk(self) -> None:
        """Take no more requests while the disk is nearly full; firing goes on and makes room."""
        settings = self._engine.settings
        check(settings.data_path, self._lock)
        free = shutil.disk_usage(settings.data_path).free
        low = free < settings.min_free_disk
        consumer = self._app._consumer  # noqa: SLF001 - None until it starts
        if consumer is None or low == consumer.held_back:
            return
        consumer.held_back = low
        if low:
            log.error(
                "%d MiB of disk are free, less than DELAY_MIN_FREE_DISK (%d MiB). The worker accepts no requests "
                "until more space is free",
                free >> 20,
                settings.min_free_disk >> 20,
            )
        else:
            log.warning("enough disk space is free again: the worker accepts requests")

    def _mind_the_group(self) -> None:
        consumer = self._app._consumer  # noqa: SLF001 - None until it starts
        if consumer is not None:
            group.check(consumer._thread._consumer)  # noqa: SLF001 - None until it starts
