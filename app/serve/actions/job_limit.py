"""Limits the messages that a job acts on: all its parts together never exceed the confirmed number.

Several workers do the parts, without a leader. So a part records how many messages it is about to act on before it
does, then reads the records of the others. Of two parts that write at the same time at least one reads the other's
record, and withdraws its own if both together exceed the limit.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from app.serve.actions.job import Job, PartProgress

_LOOK_S: Final = 0.2


class Log(Protocol):
    """The log of jobs, with the progress of all parts that was read so far."""

    parts: dict[tuple[str, int], PartProgress]

    async def read(self) -> bool:
        """Read to the end; return False if the log cannot be read."""
        ...

    async def note(self, part: PartProgress) -> None:
        """Record the progress of a part."""


class JobLimit:
    """Reserves messages for one part of a job."""

    def __init__(self, log: Log, job: Job, partition: int) -> None:
        """Limit the part of `job` in `partition`, so that all parts together stay within the job's `counted`."""
        self._log, self._job, self._partition = log, job, partition

    async def reserve(self, part: PartProgress, wanted: int, goes_on: Callable[[], bool]) -> int:
        """Return how many of the `wanted` messages the part may act on: all if they are within the job's limit.

        A smaller number is final, because other parts use the rest; 0 is not final once the part no longer `goes_on`.
        Raises TimeoutError if the log cannot be read.
        """
        while goes_on():
            left, settled = self._left(part)
            count = min(wanted, left)
            if count < wanted and not settled:
                await asyncio.sleep(_LOOK_S)
                await self._read()
                continue
            if count <= 0:
                return 0
            await self._log.note(msgspec.structs.replace(part, reserved=part.sent + count))
            await self._read()
            if self._left(part)[0] >= count:
                return count
            await self._log.note(msgspec.structs.replace(part, reserved=part.sent))
            await asyncio.sleep(random.uniform(0, _LOOK_S))  # noqa: S311 - so that the two do not collide again
        return 0

    def _left(self, part: PartProgress) -> tuple[int, bool]:
        """Return how many messages other parts leave, and whether no part is about to act."""
        of_job = (one for (job_id, _), one in self._log.parts.items() if job_id == self._job.job_id)
        others = [one for one in of_job if one.partition != self._partition]
        taken = part.sent + sum(max(one.sent, one.reserved) for one in others)
        return self._job.counted - taken, all(one.reserved <= one.sent for one in others)

    async def _read(self) -> None:
        if not await self._log.read():
            raise TimeoutError("the jobs topic cannot be read")
