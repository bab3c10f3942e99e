"""The faust.Table of delayed messages: one store per partition, one changelog topic."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import faust

from tables.shares import NamespaceRule
from tables.stores import Stores


class DelayTable(Stores, faust.Table):
    """Pending messages, partitioned like the requests; each change is one batch in a compacted changelog.

    A Faust table is written from within a stream event (faust/tables/base.py:305); this table is also written by
    timers, so its rows are reached through `stores[partition]`, and its changelog is written by the journal.
    """

    def __init__(
        self,
        *args: Any,
        now_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
        namespace_rule: NamespaceRule | None = None,
        **kwargs: Any,
    ) -> None:
        """Create Faust's table from `args` and `kwargs`. `now_ms` is wall time; `monotonic_ms` never jumps.

        With a `namespace_rule`, usage is counted per namespace.
        """
        self._now_ms, self._monotonic_ms, self._namespace_rule = now_ms, monotonic_ms, namespace_rule
        faust.Table.__init__(self, *args, **kwargs)

    def __post_init__(self) -> None:
        """Begin with no partition open."""
        self.stores, self.progress = {}, {}

    async def on_start(self) -> None:
        """Start without Faust's store: partitions are opened when they are assigned."""

    async def on_rebalance(self, *_: Any, **__: Any) -> None:
        """Leave partitions to the worker's ownership, which knows the deliveries in flight."""

    def path(self, partition: int) -> Path:
        """Return the directory of a partition's database."""
        return Path(self.app.conf.tabledir) / f"{self.name}-{partition}.db"
