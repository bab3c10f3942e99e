"""Limits the messages that a job acts on: all its parts together never exceed the confirmed number.

Several workers do the parts, without a leader. So a part records how many messages it is about to act on before it
does, then reads the records of the others. Of two parts that write at the same time at least one reads the other's
record, and withdraws its own if both together exceed the limit.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final

import msgspec

from app.serve.actions.job import Job, PartProgress
from app.serve.actions.job_log import JobLog

_LOOK_S: Final = 0.2


async def reserve(log: JobLog, job: Job, part: PartProgress, wanted: int, goes_on: Callable[[], bool]) -> int:
    """Return how many of the `wanted` messages a part may act on: all if they are within the job's limit.

    A smaller number is final, because other parts use the rest; 0 is not final once the part no longer `goes_on`.
    Raises TimeoutError if the log cannot be read.
    """
    while goes_on():
        left, settled = _left(log, job, part)
        count = min(wanted, left)
        if count < wanted and not settled:
            await asyncio.sleep(_LOOK_S)
            await _read(log)
            continue
        if count <= 0:
            return 0
        await log.note(msgspec.structs.replace(part, reserved=part.sent + count))
        await _read(log)
        if _left(log, job, part)[0] >= count:
            return count
        await log.note(msgspec.structs.replace(part, reserved=part.sent))
        await asyncio.sleep(random.uniform(0, _LOOK_S))  # noqa: S311 - so that the two do not collide again
    return 0


def _left(log: JobLog, job: Job, part: PartProgress) -> tuple[int, bool]:
    """Return how many messages other parts leave, and whether no part is about to act."""
    of_job = (one for (job_id, _), one in log.parts.items() if job_id == job.job_id)
    others = [one for one in of_job if one.partition != part.partition]
    taken = part.sent + sum(max(one.sent, one.reserved) for one in others)
    return job.counted - taken, all(one.reserved <= one.sent for one in others)


async def _read(log: JobLog) -> None:
    if not await log.read():
        raise TimeoutError("the jobs topic cannot be read")
