"""Removes delivered plain rows, many per call, on the fast path (app/kafka/fast_path)."""

import itertools
from collections.abc import Iterable, Sequence

from app.engine.steps.context import PartitionContext
from app.engine.steps.step import Step
from app.kafka import fast_path
from app.kafka.fast_path.interface import ONE_BY_ONE, SentBatch, next_length
from tables import Entry, keys


class PlainDeliveries:
    """Removes the rows of one partition whose delivery has no effect but its event."""

    def __init__(self, context: PartitionContext) -> None:
        """Use the claims, command memory and deduplication window of a partition's `context`."""
        self._claims, self._memory = context.claims, context.memory
        self._keeps = bool(context.settings.retention.dedupe_window_ms)

    def remove(
        self, step: Step, rows: list[bytes], first: int, where: str | None, sent_ms: int
    ) -> Iterable[tuple[bytes, int]]:
        """Remove rows that the partition `where` accepted from offset `first` on; yield the others with their offsets.

        All posted rows are yielded.
        """
        touched = step.changes.puts and not step.changes.puts.keys().isdisjoint(rows)
        if where is None or self._keeps or touched:
            yield from zip(rows, itertools.count(first))
            return
        begin, most = 0, len(rows)
        batch = SentBatch(first, self._claims, where, step.now_ms, sent_ms, max(0, self._memory.watermark_ms))
        while begin < len(rows):
            run = fast_path.chosen.delivered(rows, begin, begin + most, batch)
            traces = batch.watermark_ms == keys.MAX_DUE_MS
            if not run.taken and not traces:  # from here on, rows are remembered
                batch = batch._replace(watermark_ms=keys.MAX_DUE_MS)
                continue
            known, taken = self._known(step, run.ids, run.rows, traces=traces), run.taken
            if known:
                most = known
                continue
            if known is None and taken:
                step.remove_plain(run.ids, rows[begin : begin + taken], run.rows)
                step.tell_all("delivered", run.events)
                begin += taken
                others = begin + 1
            else:
                taken, others = 0, begin + ONE_BY_ONE
            yield from zip(rows[begin:others], itertools.count(first + begin))
            begin, most = others, next_length(taken)

    def _known(self, step: Step, ids: Sequence[str], rows: Sequence[bytes | Entry], *, traces: bool) -> int | None:
        """Return the index of the first id that has a record or mark; without any, remember the rows if `traces`."""
        known = step.first_known(ids)
        return self._memory.end_plain(step, rows) if known is None and traces else known
