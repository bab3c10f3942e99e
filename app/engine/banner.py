"""The lines that a worker logs when it starts, and when it is ready."""

import logging
import os
import platform
from collections.abc import Collection
from importlib.metadata import version

from app.base.version import VERSION
from app.settings.destinations import DestinationSettings
from app.settings.process import ProcessSettings
from app.settings.settings import Settings
from app.settings.topics import TopicSettings
from tables import native_extension

log = logging.getLogger(__name__)


def banner(settings: Settings) -> str:
    """Return the start banner: version, installation, and the main settings."""
    missing, topics, guarantee = native_extension.missing, settings.topics, settings.engine.guarantee
    rows = {
        "installation": f"{topics.app_id}, {topics.partitions} partitions, {guarantee.replace('_', ' ')}",
        "Kafka": settings.kafka.bootstrap,
        "delivers to": destinations(settings.destinations),
        "data": str(settings.data_path.absolute()),
        "console": settings.process.url,
        "native extension": f"off (Python is used instead): {missing}" if missing else "on",
        "process": f"{os.getpid()}, Python {platform.python_version()}, Faust {version('faust-streaming')}",
    }
    width = max(map(len, rows))
    return "\n".join([f"Punctual {VERSION}", *(f"  {name:<{width}}  {value}" for name, value in rows.items())])


class Readiness:
    """Logs that a worker is ready, once for each set of partitions that it is assigned."""

    def __init__(
        self, topics: TopicSettings, destination_settings: DestinationSettings, process: ProcessSettings
    ) -> None:
        """Begin without a logged assignment; the settings are for the log line."""
        self._topics, self._destinations, self._process = topics, destination_settings, process
        self._served: set[int] | None = None

    def look(self, owned: Collection[int], missing: str | None) -> None:
        """Log it if `owned` is new and the worker is ready; `missing` is the reason if it is not."""
        if missing is None and self._served != set(owned):
            self._served = set(owned)
            share = f"{len(owned)} of {self._topics.partitions} partitions"
            log.info(
                "serving %s, delivering to %s, %s",
                share,
                destinations(self._destinations),
                self._process.url,
            )


def destinations(destination_settings: DestinationSettings) -> str:
    """Return the patterns of DELAY_DESTINATIONS as text."""
    rules = [
        pattern if source == "*" else f"{source}:{pattern}"
        for source, patterns in destination_settings.allowed_topics.items()
        for pattern in patterns
    ]
    return ", ".join(rules) or "nothing (DELAY_DESTINATIONS is not set)"
