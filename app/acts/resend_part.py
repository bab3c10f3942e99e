"""One partition's part of a job that sends dead letters again, from the oldest to the newest at its start."""

import asyncio
from collections import Counter
from typing import Final

from app.acts.job_part import BATCH, PATIENCE_S, JobPart
from app.acts.resend import Incomplete, resend
from app.dead_letters.dead_letter import DeadLetter
from app.kafka.metadata.reader import PartitionReader, Stored
from app.kafka.produce.batch import Batch

_LOOK_S: Final = 0.05
_FETCH_BYTES: Final = 256 * 1024


class ResendPart(JobPart):
    """Sends them to the inputs that they came from; what comes of them their events tell."""

    async def run(self) -> None:
        """Work until the part is over, the job is stopped, or the partition is somebody else's.

        Raises a SendError, a KafkaError or TimeoutError; what is written down stays, and can be gone on with.
        """
        topic, number = self._engine.settings.dead_letters, self._part.partition
        end = self._job.ends[number].get(topic, 0)
        begin = await PartitionReader(self._engine.cluster, topic, number).begin()
        start = max(begin, int(self._part.after or 0))
        reader = PartitionReader(self._engine.cluster, topic, number, start, fetch_bytes=_FETCH_BYTES)
        while not self._part.over and self._mine():
            records = [] if await reader.position() >= end else await reader.chunk(BATCH)
            await self._send([record for record in records if record.offset < end], await reader.position(), end)

    async def _send(self, records: list[Stored], position: int, end: int) -> None:
        number, now_ms = self._part.partition, self._engine.now_ms()
        outcomes, sent = Counter(self._part.outcomes), 0
        batches: dict[tuple[str, int], Batch] = {}
        for one in (DeadLetter.of(number, record, most=None) for record in records):
            wanted = self._job.dead_letters
            if wanted is None or not wanted.fits(self._log.marked(one, besides=self._job.job_id)):
                continue
            try:
                topic, partition, request, _ = resend(self._engine.settings, one, now_ms)
            except Incomplete:
                outcomes["incomplete"] += 1
                continue
            place, headers = (topic, partition), list(request.headers)
            batch = batches.setdefault(place, Batch())
            if not batch.append(now_ms, request.key, request.value, headers):
                await self._submit({place: batch})
                batches[place] = batch = Batch()
                batch.append(now_ms, request.key, request.value, headers)
            sent += 1
        await self._submit(batches)
        outcomes["sent"] += sent
        after = str(min(position, end))
        await self._note(after, self._part.sent + sent, +outcomes, 0, over=position >= end)

    async def _submit(self, batches: dict[tuple[str, int], Batch]) -> None:
        """Send batches, and wait until those for partitions that are served here are taken up: others come between."""
        submit = self._engine.sender.submit
        acks = await asyncio.gather(*(submit(topic, number, batch) for (topic, number), batch in batches.items()))
        async with asyncio.timeout(PATIENCE_S):
            for ((topic, number), batch), ack in zip(batches.items(), acks, strict=True):
                while (position := self._engine.position(topic, number)) is not None:
                    if position >= ack.offset + batch.count:
                        break
                    await asyncio.sleep(_LOOK_S)
