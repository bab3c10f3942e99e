"""The stores of a table: one per partition, opened, restored and closed as partitions are assigned and revoked."""

import logging
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from tables.errors import StoreCorrupt, StoreUnusable, TableError
from tables.inspection import Inspection
from tables.restore import ChangelogReader, RestoreProgress, restore
from tables.shares import NamespaceRule
from tables.store import PartitionStore

log = logging.getLogger(__name__)


class Stores:
    """Databases in a directory, by partition."""

    stores: dict[int, PartitionStore]
    progress: dict[int, RestoreProgress]
    #: The function that assigns messages to namespaces, if usage is counted.
    _namespace_rule: NamespaceRule | None = None

    def __init__(self, directory: Path, now_ms: Callable[[], int], monotonic_ms: Callable[[], int]) -> None:
        """Begin with no open partition. `directory` has the databases; `monotonic_ms` is a clock that never jumps."""
        self._directory, self._now_ms, self._monotonic_ms = directory, now_ms, monotonic_ms
        self.stores, self.progress = {}, {}

    def path(self, partition: int) -> Path:
        """Return the directory of a partition's database."""
        return self._directory / f"{partition}.db"

    def open(self, partition: int, oldest_ms: int) -> PartitionStore:
        """Open a partition's store; empty it if it was last up to date before `oldest_ms`, or if it is damaged.

        Tombstones older than the changelog's delete.retention.ms may be gone, so a store that is older would bring
        delivered messages back.
        """
        store = self.stores.get(partition)
        if store is None:
            store = self._open(partition)
        if store.offset and store.seen_ms < oldest_ms:
            days = (self._now_ms() - store.seen_ms) / 86_400_000
            log.warning(
                "partition %d: the local database was last up to date %.1f days ago. Newer tombstones may be "
                "compacted away, so it is restored from the changelog",
                partition,
                days,
            )
            store = self._renew(store)
        self.stores[partition] = store
        return store

    def _open(self, partition: int) -> PartitionStore:
        path = self.path(partition)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                return PartitionStore(path, self._namespace_rule)
            except StoreCorrupt as error:
                log.warning("partition %d: %s", partition, error)
                shutil.rmtree(path)
                return PartitionStore(path, self._namespace_rule)
        except OSError as error:
            raise StoreUnusable(str(path), error) from error

    def _renew(self, store: PartitionStore) -> PartitionStore:
        store.wipe()
        return PartitionStore(store.path, self._namespace_rule)

    def renew(self, partition: int) -> PartitionStore:
        """Delete a partition's store and open an empty one."""
        self.stores[partition] = self._renew(self.stores[partition])
        return self.stores[partition]

    def close(self, partition: int) -> None:
        """Close a partition's store, if it is open: another process may open it when this returns."""
        store = self.stores.pop(partition, None)
        if store is not None:
            try:
                store.close()
            except TableError as error:  # the changelog has the data
                log.warning("partition %d: %s", partition, error)

    async def restore(
        self,
        partition: int,
        reader: ChangelogReader,
        skip: Collection[int] = (),
        inspection: Inspection | None = None,
    ) -> set[bytes]:
        """Bring a partition's store to the changelog's end; return the keys that a zombie was the last to write.

        Raises RecordsGarbled if records cannot be read. Then open the store again and restore it with an `inspection`,
        which raises RecordUnreadable at the end if no later record replaces them.
        """
        progress = self.progress[partition] = RestoreProgress(partition, self._monotonic_ms)
        try:
            store = self.stores[partition]
            return await restore(store, reader, progress, self._now_ms, skip, inspection)
        finally:
            del self.progress[partition]
