"""Settings that every worker of an installation must have alike: told with each report, and compared."""

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

#: Settings of the installation whose values are a worker's own business, or said by the topics that it reads.
OF_A_WORKER = frozenset(
    {
        "DELAY_APP_ID",
        "DELAY_CATCH_UP",
        "DELAY_HTTP_SECRETS_FILE",
        "DELAY_LOG_FORMAT",
        "DELAY_MAX_IN_FLIGHT",
        "DELAY_MIN_FREE_DISK",
        "DELAY_ACCEPT_LOSS",
        "DELAY_PROCESSES",
        "DELAY_ROW_VERSION",
        "DELAY_SESSION_TIMEOUT",
        "DELAY_WEB_HOSTS",
        "DELAY_WEB_INSECURE",
        "DELAY_WEB_METRICS",
        "DELAY_WEB_OIDC_FILE",
        "DELAY_WEB_PAYLOADS",
        "DELAY_WEB_READ_ONLY",
        "DELAY_WEB_SECRET",  # not even its hash is told
        "DELAY_WEB_URL",
        "DELAY_WEB_USERS_FILE",
    }
)
_OF_GATEWAYS = "DELAY_GATEWAY_"


def fingerprint(settings: Settings) -> dict[str, str]:
    """Return a short hash of each setting that must be alike, by its name: values stay where they are."""
    told = {}
    for name, value in settings.values():
        if name.startswith("DELAY_") and not name.startswith(_OF_GATEWAYS) and name not in OF_A_WORKER:
            told[name] = f"{zlib.crc32(msgspec.json.encode(_unordered(value))):08x}"
    return told


def _unordered(value: Any) -> Any:
    """Return a value of which the order of parts says nothing.

    How clusters are shown who asks is not in it: that is told to nobody, and each worker may have a login of its own.
    """
    if isinstance(value, Clusters) and value.rates:
        return [_unordered(dict(value)), _unordered(value.rates)]
    if isinstance(value, dict):
        return sorted((name, _unordered(part)) for name, part in value.items())
    if isinstance(value, Namespaces):
        return str(value)
    return sorted(value) if isinstance(value, tuple) else value


def differing(ours: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """Return the settings that two have otherwise, of those that both tell."""
    return sorted(name for name in ours.keys() & theirs.keys() if ours[name] != theirs[name])


def has_other(worker: str, names: Iterable[str]) -> str:
    """Return what is said of a worker that has other settings."""
    return (
        f"the worker at {worker} has different values of the settings {', '.join(names)}. These settings decide how "
        "messages are processed and must be the same on all workers of an installation. Correct them, and restart."
    )


class Agreement:
    """Warns, once, of each worker that has other settings than this one."""

    def __init__(self, settings: Settings, started_ms: int) -> None:
        """Compare with what is reported from `started_ms` on: before, all may have been told something else."""
        self._ours, self._url, self._started_ms = fingerprint(settings), settings.process.url, started_ms
        #: The settings that each other worker has otherwise, by its address.
        self.differing: dict[str, list[str]] = {}

    def look(self, reports: Iterable[Report], now_ms: int) -> None:
        """Compare with the latest reports."""
        since, heard = max(self._started_ms, now_ms - STALE_AFTER_MS), set[str]()
        for report in reports:
            worker, theirs = report.progress.worker, report.progress.settings
            if worker == self._url or report.appended_ms < since or report.progress.state is not None:
                continue  # told again for a partition that is restored or stopped, it is what its worker had before
            heard.add(worker)
            if not theirs:
                continue
            names = differing(self._ours, theirs)
            if names != self.differing.get(worker, []):
                self.differing[worker] = names
                if names:
                    log.warning("%s", has_other(worker, names))
        self.differing = {worker: names for worker, names in self.differing.items() if names and worker in heard}
