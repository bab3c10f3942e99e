"""Plain rows that were delivered are removed, many in one call; the kernel does not decode them."""

import itertools
from collections.abc import Iterable, Sequence

from app.engine.steps import usual_removals as in_python
from app.engine.steps.context import PartitionContext
from app.engine.steps.step import Step
from tables import Entry, compiled, keys


class PlainDeliveries:
    """Removes the rows of one partition of which there is nothing to say but that they were delivered."""

    def __init__(self, context: PartitionContext) -> None:
        """Serve the partition of a context."""
        self._claims, self._memory = context.claims, context.memory
        self._keeps = bool(context.settings.dedupe_window_ms)

    def remove(
        self, step: Step, rows: list[bytes], first: int, where: str | None, sent_ms: int
    ) -> Iterable[tuple[bytes, int]]:
        """Remove rows that `where` has taken from offset `first` on; go through the others, with theirs.

        Those that were posted are all among the others.
        """
        touched = step.changes.puts and not step.changes.puts.keys().isdisjoint(rows)
        if where is None or self._keeps or touched:
            yield from zip(rows, itertools.count(first))
            return
        begin, most, watermark_ms = 0, len(rows), max(0, self._memory.watermark_ms)
        while begin < len(rows):
            taken, ids, ended, told = (compiled.kernel or in_python).delivered(
                rows, begin, begin + most, first, self._claims, where, step.now_ms, sent_ms, watermark_ms
            )
            if not taken and watermark_ms < keys.MAX_DUE_MS:  # from here on, they leave traces
                watermark_ms = keys.MAX_DUE_MS
                continue
            known = self._known(step, ids, ended, traces=watermark_ms == keys.MAX_DUE_MS)
            if known:
                most = known
                continue
            if known is None and taken:
                step.remove_plain(ids, rows[begin : begin + taken], ended)
                step.tell_all("delivered", told)
                begin += taken
                others = begin + 1
            else:
                taken, others = 0, begin + compiled.OTHERS
            yield from zip(rows[begin:others], itertools.count(first + begin))
            begin, most = others, compiled.next_look(taken)

    def _known(self, step: Step, ids: Sequence[str], rows: Sequence[bytes | Entry], *, traces: bool) -> int | None:
        """Return the place of the first id of which more is known; if there is none, leave what `traces` they leave."""
        known = step.first_known(ids)
        return self._memory.end_plain(step, rows) if known is None and traces else known
