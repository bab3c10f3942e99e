"""Ingest of a partition: requests become rows, commands change rows, invalid records become dead letters.

The only I/O is reads of the local store. All effects are in the step, which the caller commits.
"""

import zlib
from collections.abc import Callable, Iterable, Sequence

import msgspec

from app.base.errors import untraced
from app.engine.ingest.commands import Commands
from app.engine.ingest.pending_rows import PendingRows
from app.engine.ingest.plain_requests import PlainRequests
from app.engine.ingest.policy import AHEAD_MS, Policy
from app.engine.ingest.refusals import RefusalWriter
from app.engine.ingest.schedules import Schedules
from app.engine.steps.context import PartitionContext
from app.engine.steps.step import OutgoingRecord, Step
from app.kafka.patches.lenient_records import Unread
from punctual.contract import forward
from punctual.contract.home import home_partition
from punctual.contract.record import PlainRecord, Record
from punctual.contract.request import Reason, Refusal, Request, encode
from tables import Position, keys
from tables.commands import OF_SERIES, UNKNOWN_MS
from tables.entry import RECURRING

Read = tuple[Record, Request | Refusal]

#: Bytes of a value that a checksum covers (about 4 ms). A compressed record that is far too large is cheap to send.
_CRC_BYTES = 4 << 20

_TOO_OLD = (
    "some workers of the installation do not support recurring messages. Upgrade these workers, or remove "
    "DELAY_ROW_VERSION. Then send it again."
)


class Ingest:
    """Turns the records of one partition into steps."""

    def __init__(self, context: PartitionContext, policy: Policy) -> None:
        """Serve the partition of a context; `policy` says which requests may be accepted."""
        topics = context.settings.topics
        self._number, self._policy = context.number, policy
        self._store, self._memory = context.store, context.memory
        self._refusals = RefusalWriter(context, policy.quotas)
        self._rates = None if policy.quotas is None else policy.quotas.rates
        self._inputs, self._forwards, self._partitions = topics.inputs, topics.forwards, topics.partitions
        self._decoders = {topic: topics.dialect(topic).decode for topic in self._inputs}
        self._decoders[self._forwards] = forward.decode
        self._crcs = {topic: keys.topic_crc(topic) for topic in (*self._inputs, self._forwards)}
        self._rows = rows = PendingRows(context)
        self._schedules = Schedules(context, policy, rows, self._refusals, self._crcs)
        self._commands = Commands(context, rows, self._crcs, policy.quotas)
        self._plain = PlainRequests(context, policy, self._crcs)
        #: The stamp of the last record that was read.
        self._read_ms = UNKNOWN_MS

    def take_plain(
        self,
        step: Step,
        records: Sequence[Record],
        begin: int,
        end: int,
        partitions_of: Callable[[str], int],
        limit: int,
    ) -> int:
        """Add the plain requests of `records[begin:end]` to `step`; return how many records were taken.

        All are of one topic and in order. It stops at the first other record, or when the step has `limit` bytes.
        """
        topic = records[begin].topic
        before = self._position(step, topic)
        stamp_ms = max(before.stamp_ms, self._memory.claimed(topic))
        taken, stamp_ms = self._plain.take(
            step, records, begin, end, before, stamp_ms, partitions_of, limit - step.size
        )
        if taken:
            last = records[begin + taken - 1]
            self._move_on(step, last, last.offset + 1, before, stamp_ms)
        return taken

    def read(
        self, step: Step, records: Sequence[Record], each: Callable[[Sequence[Record]], Iterable[Record]] = iter
    ) -> list[Read]:
        """Decode `records`, all of one topic and in order, but skip those before the topic's position.

        `each` iterates over the records and may stop early.
        """
        topic = records[0].topic
        position = self._position(step, topic)
        start, base = position.offset, position.base
        stamp_ms = max(position.stamp_ms, self._memory.claimed(topic))
        latest_ms = step.broker_ms + AHEAD_MS
        forwarded, broker_ms, check = topic == self._forwards, step.broker_ms, self._policy.check
        allowed, furthest_ms = self._policy.allowed_so_far(topic), self._policy.furthest_ms(broker_ms)
        decode = self._decoder(records[0], position, latest_ms)
        reads: list[Read] = []
        append = reads.append
        for record in each(records):
            if record.offset < start:
                continue
            if base:
                record = _renumbered(record, base)  # noqa: PLW2901 - it is the same record
            own_ms = record.timestamp
            if stamp_ms < own_ms <= latest_ms:
                stamp_ms = own_ms
            try:
                request = decode(record)
                if not forwarded:
                    if (  # saves the call of check() where it cannot find a fault
                        request.to not in allowed
                        or request.due_ms > furthest_ms
                        or not 0 <= own_ms <= latest_ms
                        or request.cluster is not None
                        or request.dedupe_ms is not None
                        or request.on_failure is not None
                    ) and request.parked is None:
                        check(request, broker_ms)
                    request.stamp_ms, at_ms = stamp_ms, request.asked_at_ms
                    if at_ms is not None and at_ms < stamp_ms:
                        request.stamp_ms = at_ms
                        self._memory.waited(broker_ms)
                append((record, request))
            except Refusal as refusal:
                append((record, untraced(refusal)))  # its traceback would be a cycle that keeps all records
        self._read_ms = stamp_ms
        return reads

    def _decoder(self, first: Record, position: Position, latest_ms: int) -> Callable[[Record], Request]:
        """Return the decoder for a topic's records from `first` on."""
        if isinstance(first, Unread):  # it has no other records with it
            return _refuses(first, position.base)
        decode = self._decoders[first.topic]
        if self._rates is None:
            return decode
        return self._rates.limited(decode, first.topic, self._number, position.offset + position.base, latest_ms)

    def _position(self, step: Step, topic: str) -> Position:
        """Return the position up to which a topic has been read, with its stamp."""
        position = step.changes.positions.get(topic) or self._store.positions.get(topic)
        if position is None:
            return Position(0, -1, 0)
        # Positions of old versions have no stamp. The last record's timestamp is the same, if leaders' clocks agree.
        if position.stamp_ms < 0 <= position.timestamp_ms <= step.broker_ms + AHEAD_MS:
            return msgspec.structs.replace(position, stamp_ms=position.timestamp_ms)
        return position

    def apply(self, step: Step, reads: list[Read], partitions_of: Callable[[str], int], limit: int) -> int:
        """Add the effects of decoded records to `step`, and return how many records were taken.

        It stops when the step has `limit` bytes: a small command can move a large row. `partitions_of` returns a
        destination topic's number of partitions, 0 if the topic does not exist.
        """
        self._look_up(step, [request.id for _, request in reads if isinstance(request, Request)])
        taken = 0
        for record, request in reads:
            if taken and step.size >= limit:
                break
            taken += 1
            if isinstance(request, Refusal):
                self._refusals.refuse(step, record, request)
                continue
            try:
                self._route(step, record, request, partitions_of)
            except Refusal as refusal:
                if record.topic == self._forwards:
                    self._refusals.refuse_forwarded(step, request, refusal)
                else:
                    self._refusals.refuse(step, record, refusal)
        if taken:
            last, largest_ms = reads[taken - 1][0], self._read_ms
            if taken < len(reads):
                latest_ms = step.broker_ms + AHEAD_MS
                stamps = (record.timestamp for record, _ in reads[:taken])
                largest_ms = max((stamp for stamp in stamps if stamp <= latest_ms), default=-1)
            before = self._position(step, last.topic)
            self._move_on(step, last, last.offset + 1 - before.base, before, largest_ms)
        return taken

    def _move_on(self, step: Step, last: Record, following: int, before: Position, largest_ms: int) -> None:
        """Set the position of a topic after its `last` record; `following` is the next offset, without the base."""
        step.changes.positions[last.topic] = Position(
            following,
            last.timestamp,
            crc_of(last.key, last.value),
            before.base,
            max(before.stamp_ms, largest_ms, self._memory.claimed(last.topic)),
            before.log,
        )

    def _look_up(self, step: Step, ids: list[str]) -> None:
        """Add the row keys of `ids` to the step, with one read for all ids that the step does not have."""
        missing = [id_ for id_ in ids if id_ not in step.ids]
        if missing:
            step.ids.update(zip(missing, self._store.find_many(missing), strict=True))

    def _assure_kept(self, step: Step, request: Request) -> None:
        """Raise Refusal if a request needs a series and the step's row version has none."""
        if step.version < RECURRING and (request.recurrence is not None or request.op in OF_SERIES):
            raise Refusal(Reason.MALFORMED, _TOO_OLD)

    def _route(self, step: Step, record: Record, request: Request, partitions_of: Callable[[str], int]) -> None:
        """Apply a request if this is the home partition of its id, otherwise forward it there."""
        if record.topic == self._forwards:
            if self._repeated(step, request):
                return
            self._assure_kept(step, request)  # its sender may write newer rows
            if request.op == "schedule" and request.cluster is None and "://" not in request.to:
                self._policy.hopes(request, record, partitions_of(request.to))
        else:
            self._assure_kept(step, request)
            if request.op == "schedule" and request.cluster is None and request.parked is None:
                partitions = partitions_of(request.to)
                unknown = partitions <= (request.partition or 0) and "://" not in request.to
                if unknown and not self._policy.hopes(request, record, partitions):
                    self._policy.assure_topic(request, partitions)
            if request.id != request.source:
                home = home_partition(request.id, self._inputs, self._partitions)
                if home != self._number:
                    raw = encode(request)  # no smaller than the row that it becomes there
                    self._rows.check_size(len(raw))
                    step.send(OutgoingRecord(self._forwards, home, request.id.encode(), raw, []))
                    return
        if request.parked is not None:
            self._schedules.take_back(step, record, request, request.parked, partitions_of)
        elif request.op == "schedule":
            self._schedules.schedule(step, record, request)
        else:
            self._commands.apply(step, record, request)

    def _repeated(self, step: Step, request: Request) -> bool:
        """Return whether a forward has been applied before: each partition's forwards come in the order of offsets."""
        topic, partition, offset = request.source.rsplit("-", 2)
        origin = keys.origin_key(topic, int(partition))
        seen = step.changes.origins.get(origin, self._store.origins.get(origin, -1))
        if int(offset) <= seen:
            return True
        step.changes.origins[origin] = int(offset)
        return False


def _renumbered(record: Record, base: int) -> Record:
    """Return a record of a re-created topic with an offset that continues the old topic's offsets.

    Sources, automatic ids, row keys and the check for repeated forwards use offsets. Without this, new requests would
    replace pending messages, and new forwards would look like repeated ones.
    """
    offset, stamp_ms = record.offset + base, record.timestamp
    return PlainRecord(record.topic, record.partition, offset, stamp_ms, record.key, record.value, record.headers)


def _refuses(unread: Unread, base: int) -> Callable[[Record], Request]:
    """Return a decoder that refuses `unread`, which stands for a batch that cannot be unpacked."""
    first, last = unread.first + base, unread.offset + base
    which = f"record {first}" if first == last else f"records {first} to {last}"
    reason = Reason.TOO_LARGE if unread.too_large else Reason.MALFORMED
    sentence = (
        f"The batch with {which} of {unread.topic}-{unread.partition} was skipped: {unread.why}. Send its records "
        "again in smaller batches."
    )

    def decode(_: Record) -> Request:
        raise Refusal(reason, sentence)

    return decode


def crc_of(key: bytes | None, value: bytes | None) -> int:
    """Return a checksum by which a record is recognised: of its key and the first bytes of its value."""
    return zlib.crc32((value or b"")[:_CRC_BYTES], zlib.crc32(key or b""))
