"""Follows the control topic: every worker reads the controls of destinations before it delivers."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType

import aiokafka.errors
import msgspec

from app.base.errors import TopicMismatch
from app.base.process.skipped_records import bounded, passed_over
from app.engine.throttle.control import Control, decode
from app.kafka import Cluster
from app.kafka.metadata.reader import PartitionReader
from app.settings.engine import EngineSettings
from app.settings.topics import TopicSettings
from punctual.contract.destination import Destination

log = logging.getLogger(__name__)

_EVERY_S = 0.25
#: Maximum number of destinations with controls; all are compared each time that the topic is read.
_MOST = 10_000
#: Seconds after which an unreadable topic is logged, and interval of further log lines.
_WARN_S = 10.0


class Controls:
    """Knows the last control record of each destination.

    While the topic cannot be read, the last known controls apply, and new partitions do not deliver: messages that an
    operator has held back must not be sent by a worker that has not read the control.
    """

    def __init__(self, topics: TopicSettings, engine: EngineSettings, cluster: Cluster) -> None:
        """Follow the control topic of `topics` on `cluster`; call `read` before the first use."""
        self._topic, self._cluster, self._accept_loss = topics.controls, cluster, engine.accept_loss
        self._reader: PartitionReader | None = None
        self._reading = asyncio.Lock()
        self._known: dict[Destination, Control] = {}
        #: Called after a change of the controls.
        self.changed: Callable[[], None] = lambda: None

    @property
    def known(self) -> Mapping[Destination, Control]:
        """The control of each destination: a live, read-only view."""
        return MappingProxyType(self._known)

    async def assure_whole(self) -> None:
        """Check that no record was deleted: the topic is only compacted, so its first offset stays 0.

        Raises TopicMismatch with instructions, unless the loss is accepted.
        """
        begin = await PartitionReader(self._cluster, self._topic, 0).begin()
        if not begin:
            return
        what = (
            f"topic {self._topic} begins at offset {begin}: its first records were deleted, and with them pauses and "
            "rates"
        )
        if self._topic not in self._accept_loss:
            msg = (
                f"{what}. Messages of paused destinations would be delivered. Set cleanup.policy=compact on the "
                "topic. Write the missing controls to it again (docs/how-to/pause-and-rate.md), set "
                f"DELAY_ACCEPT_LOSS={self._topic} and restart. The remaining controls stay in force."
            )
            raise TopicMismatch(msg)
        log.error("%s. DELAY_ACCEPT_LOSS accepts this", what, extra={"topic": self._topic})

    async def run(self) -> None:
        """Follow the topic until cancelled."""
        while True:
            await self.read()
            await asyncio.sleep(_EVERY_S)

    async def read(self) -> None:
        """Read to the topic's present end; wait while it cannot be read, and log that."""
        async with self._reading:
            self._warn_later()
            try:
                controls = await self._read()
            except BaseException:  # on cancellation, too, the records read so far are dropped and have to be read again
                self._reader = None
                raise
            finally:
                self._warning.cancel()
        if controls != self._known:
            self._known.clear()
            self._known.update(controls)
            self.changed()

    async def _read(self) -> dict[Destination, Control]:
        """Return the controls at the topic's end; a topic that was created again is read from its beginning."""
        controls = dict(self._known)
        while True:
            reader = self._reader
            if reader is None:
                begin = await PartitionReader(self._cluster, self._topic, 0).begin()
                if not begin:  # otherwise records were deleted, and the controls in memory stay in force
                    controls.clear()
                reader = self._reader = PartitionReader(self._cluster, self._topic, 0, begin)
            try:
                end = await reader.end()
                async for record in reader.up_to(end):
                    self._take(controls, record.offset, record.key, record.value)
            except aiokafka.errors.OffsetOutOfRangeError:
                self._reader = None
                continue
            if await reader.position() == end:
                return controls
            self._reader = None

    def _warn_later(self) -> None:
        self._warning = asyncio.get_running_loop().call_later(_WARN_S, self._warn)

    def _warn(self) -> None:
        log.error(
            "%s cannot be read. The last known pauses and rates stay in force, and new partitions of this worker do "
            "not deliver until it can be read. Check that the topic exists and that its brokers answer",
            self._topic,
            extra={"topic": self._topic},
        )
        self._warn_later()

    def _take(self, controls: dict[Destination, Control], offset: int, key: bytes | None, value: bytes | None) -> None:
        try:
            to, control = decode(key, None if value is None else bounded(value))
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            passed_over(self._topic, 0, offset, error)
            return
        if control is None:
            controls.pop(to, None)
        elif to in controls or len(controls) < _MOST:
            controls[to] = control
        else:
            passed_over(self._topic, 0, offset, f"{_MOST:,} other destinations have controls")
