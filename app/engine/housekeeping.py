"""Checks that a worker makes every second, next to the work of its partitions: destinations, disk, group, settings."""

import asyncio
import logging
import shutil
from typing import IO, Any

import aiokafka.errors

from app.base.process import free_disk
from app.base.process.datadir import check
from app.engine.assembly import Parts
from app.engine.banner import Readiness
from app.engine.connections import Connections
from app.engine.faust_host.handover import check_coordinator
from app.engine.steps.route import HTTP
from app.engine.view import EngineView

log = logging.getLogger(__name__)

_EVERY_S = 1.0
_METADATA_S = 60.0
_IDLE_S = 3_600.0


class Housekeeping:
    """Makes the regular checks of one worker."""

    def __init__(self, view: EngineView, connections: Connections, parts: Parts, app: Any, lock: IO[bytes]) -> None:
        """Check the `parts` and `connections` of a worker, and the consumer of its Faust `app`.

        `lock` holds its data directory.
        """
        self._view, self._connections, self._parts, self._app, self._lock = view, connections, parts, app, lock

    async def run(self) -> None:
        """Check every second, until cancelled."""
        view, parts, now = self._view, self._parts, asyncio.get_running_loop().time
        learned = swept = now()
        readiness = Readiness(view.settings.topics, view.settings.destinations, view.settings.process)
        while True:
            await asyncio.sleep(_EVERY_S)
            self._give_up()
            self._mind_the_disk()
            self._mind_the_group()
            parts.standstill.look()
            readiness.look(view.owned, view.ready_reason())
            parts.agreement.look(view.reader.reports.values(), view.clock.wall_ms())
            if now() - learned > _METADATA_S:
                learned = now()
                parts.dispatcher.limits.clear()
                await self._refresh_destinations()
            if now() - swept > _IDLE_S:
                swept = now()
                for sender in self._connections.senders:
                    sender.forget_idle()

    def _give_up(self) -> None:
        """Stop retries without waiting rows, and give up on routes that are blocked for longer than DELAY_GIVE_UP."""
        dispatcher, due = self._parts.dispatcher, self._parts.due
        dispatcher.let_go()
        routes = {route for partition in due.partitions.values() for route in partition.in_flight.routes}
        given_up = [route for route in routes if route[2] != HTTP and dispatcher.give_up(route)]
        if given_up:
            due.notify()

    async def _refresh_destinations(self) -> None:
        for target in self._connections.targets.values():
            try:
                await target.cluster.refresh(target.cluster.known())
            except aiokafka.errors.KafkaError as error:
                log.warning("no metadata of destinations: %r", error)

    def _mind_the_disk(self) -> None:
        """Accept no more requests while the disk is nearly full; deliveries go on and make room."""
        settings = self._view.settings
        check(settings.data_path, self._lock)
        disk = shutil.disk_usage(settings.data_path)
        free, wanted = disk.free, free_disk.wanted_bytes(disk.total)
        low = free < wanted
        consumer = self._app._consumer  # noqa: SLF001 - None until it starts
        if consumer is None or low == consumer.held_back:
            return
        consumer.held_back = low
        if low:
            log.error(
                "%d MiB of disk are free, less than %d MiB. The worker accepts no requests until more space is free",
                free >> 20,
                wanted >> 20,
            )
        else:
            log.warning("enough disk space is free again: the worker accepts requests")

    def _mind_the_group(self) -> None:
        consumer = self._app._consumer  # noqa: SLF001 - None until it starts
        if consumer is not None:
            check_coordinator(consumer._thread._consumer)  # noqa: SLF001 - None until it starts
