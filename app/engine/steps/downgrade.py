"""Rewrites rows in an older version, so that older workers can read them (docs/decisions/0010)."""

import logging
from collections.abc import Callable

from app.engine.steps.step import Step
from tables import Entry, PartitionStore
from tables.entry import decode, encode

log = logging.getLogger(__name__)

#: Rows scanned per step, which takes about a millisecond, and bytes of rows that are rewritten with it.
_LOOKS, _BYTES = 1_000, 128 * 1024


class Downgrade:
    """Rewrites a partition's rows in an older version, some with each step."""

    def __init__(self, number: int, version: int, store: PartitionStore, busy: Callable[[bytes], bool]) -> None:
        """Rewrite the rows of `store` in `version`; rows that are `busy` wait for the next pass."""
        self._number, self._version, self._store, self._busy = number, version, store, busy
        self._cursor, self._newer = b"", False

    @property
    def over(self) -> bool:
        """Whether all rows have at most the older version."""
        return self._store.row_version <= self._version

    def put_into(self, step: Step) -> None:
        """Add rewritten rows to a step, until a pass through all rows has found none of a newer version."""
        before, limit = step.size, step.size + _BYTES
        for looks, (key, raw) in enumerate(self._store.raw_rows(self._cursor), 1):
            if step.size > before and step.size + len(raw) > limit:  # a large row goes alone
                self._cursor = key
                return
            if raw[0] > self._version:
                self._newer = True
                if not self._busy(key) and not step.changes.touches(key):
                    entry: Entry = decode(raw)
                    step.changes.rewrite(key, entry, encode(entry, self._version))
            if looks == _LOOKS or step.size >= limit:
                self._cursor = key + b"\0"
                return
        self._cursor, newer = b"", self._newer
        self._newer = False
        if not newer:
            self._store.holds_version(self._version)
            sentence = "partition %d: all rows have version %d, so older workers can read them"
            log.info(sentence, self._number, self._version, extra={"partition": self._number})
