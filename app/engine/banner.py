"""What a worker says of itself when it starts, and when it serves."""

import logging
import os
import platform
from collections.abc import Collection
from importlib.metadata import version

from app.base.version import VERSION
from app.settings.settings import Settings
from tables import native_extension

log = logging.getLogger(__name__)


def banner(settings: Settings) -> str:
    """Return who starts here, and with what."""
    missing = native_extension.missing
    rows = {
        "installation": f"{settings.app_id}, {settings.partitions} partitions, {settings.guarantee.replace('_', ' ')}",
        "Kafka": settings.bootstrap,
        "delivers to": destinations(settings),
        "data": str(settings.data_path.absolute()),
        "console": settings.url,
        "native extension": f"off (Python is used instead): {missing}" if missing else "on",
        "process": f"{os.getpid()}, Python {platform.python_version()}, Faust {version('faust-streaming')}",
    }
    width = max(map(len, rows))
    return "\n".join([f"Punctual {VERSION}", *(f"  {name:<{width}}  {value}" for name, value in rows.items())])


class Readiness:
    """Says once that a worker serves what it was given, and again when it was given something else."""

    def __init__(self, settings: Settings) -> None:
        """Have said nothing."""
        self._settings = settings
        self._served: set[int] | None = None

    def look(self, owned: Collection[int], missing: str | None) -> None:
        """Say it if that is new, and nothing is `missing`."""
        if missing is None and self._served != set(owned):
            self._served = set(owned)
            share = f"{len(owned)} of {self._settings.partitions} partitions"
            log.info("serving %s, delivering to %s, %s", share, destinations(self._settings), self._settings.url)


def destinations(settings: Settings) -> str:
    """Return what may be delivered to, as DELAY_DESTINATIONS has it."""
    rules = [
        pattern if source == "*" else f"{source}:{pattern}"
        for source, patterns in settings.destinations.items()
        for pattern in patterns
    ]
    return ", ".join(rules) or "nothing (DELAY_DESTINATIONS is not set)"
