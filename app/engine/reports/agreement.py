"""Settings that must be the same on all workers of an installation: reported as hashes, and compared."""

import logging
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from app.engine.reports.reader import STALE_AFTER_MS, Report
from app.settings.clusters import Clusters
from app.settings.settings import Settings
from punctual.contract.namespaces import Namespaces

log = logging.getLogger(__name__)


def fingerprint(settings: Settings) -> dict[str, str]:
    """Return, by name, a short hash of each shared setting: the values stay private."""
    return {
        name: f"{zlib.crc32(msgspec.json.encode(_unordered(value))):08x}"
        for name, value in settings.values(shared=True)
    }


def _unordered(value: Any) -> Any:
    """Return a value in which the order of parts does not matter.

    Credentials for clusters are left out: they are private, and each worker may have its own.
    """
    if isinstance(value, Clusters) and value.rates:
        return [_unordered(dict(value)), _unordered(value.rates)]
    if isinstance(value, dict):
        return sorted((name, _unordered(part)) for name, part in value.items())
    if isinstance(value, Namespaces):
        return str(value)
    return sorted(value) if isinstance(value, tuple) else value


def differing(ours: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """Return the names of the settings that differ, of those in both reports."""
    return sorted(name for name in ours.keys() & theirs.keys() if ours[name] != theirs[name])


def has_other(worker: str, names: Iterable[str]) -> str:
    """Return the warning about a worker with different settings."""
    return (
        f"the worker at {worker} has different values of the settings {', '.join(names)}. These settings decide how "
        "messages are processed and must be the same on all workers of an installation. Correct them, and restart."
    )


class Agreement:
    """Warns once about each worker whose settings differ from this worker's."""

    def __init__(self, settings: Settings, started_ms: int) -> None:
        """Compare with reports from `started_ms` on: before, workers may have had other settings."""
        self._ours, self._url, self._started_ms = fingerprint(settings), settings.process.url, started_ms
        #: The settings that differ on each other worker, by its address.
        self.differing: dict[str, list[str]] = {}

    def look(self, reports: Iterable[Report], now_ms: int) -> None:
        """Compare with the latest reports, and log differences."""
        since, workers = max(self._started_ms, now_ms - STALE_AFTER_MS), set[str]()
        for report in reports:
            worker, theirs = report.progress.worker, report.progress.settings
            if worker == self._url or report.appended_ms < since or report.progress.state is not None:
                continue  # a repeated report of a partition that is restored or stopped has its worker's old settings
            workers.add(worker)
            if not theirs:
                continue
            names = differing(self._ours, theirs)
            if names != self.differing.get(worker, []):
                self.differing[worker] = names
                if names:
                    log.warning("%s", has_other(worker, names))
        self.differing = {worker: names for worker, names in self.differing.items() if names and worker in workers}
