"""What a worker says of itself when it starts, and when it serves."""

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
    """Return who starts here, and with what."""
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
    """Says once that a worker serves what it was given, and again when it was given something else."""

    def __init__(
        self, topics: TopicSettings, destination_settings: DestinationSettings, process: ProcessSettings
    ) -> None:
        """Have said nothing."""
        self._topics, self._destinations, self._process = topics, destination_settings, process
        self._served: set[int] | None = None

    def look(self, owned: Collection[int], missing: str | None) -> None:
        """Say it if that is new, and nothing is `missing`."""
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
    """Return what may be delivered to, as DELAY_DESTINATIONS has it."""
    rules = [
        pattern if source == "*" else f"{source}:{pattern}"
        for source, patterns in destination_settings.allowed_topics.items()
        for pattern in patterns
    ]
    return ", ".join(rules) or "nothing (DELAY_DESTINATIONS is not set)"
