"""What a worker says of itself when it starts, and when it serves."""

import os
import platform
from collections.abc import Collection
from importlib.metadata import version

from app.progress import VERSION
from app.settings import Settings


def banner(settings: Settings) -> str:
    """Return who starts here, and with what."""
    rows = {
        "installation": f"{settings.app_id}, {settings.partitions} partitions, {settings.guarantee.replace('_', ' ')}",
        "Kafka": settings.bootstrap,
        "delivers to": destinations(settings),
        "data": str(settings.data_path.absolute()),
        "web view": settings.url,
        "process": f"{os.getpid()}, Python {platform.python_version()}, Faust {version('faust-streaming')}",
    }
    width = max(map(len, rows))
    return "\n".join([f"Punctual {VERSION}", *(f"  {name:<{width}}  {value}" for name, value in rows.items())])


def serving(settings: Settings, owned: Collection[int]) -> str:
    """Return what a worker that is ready does."""
    share = f"{len(owned)} of {settings.partitions} partitions"
    return f"serving {share}, delivering to {destinations(settings)}, {settings.url}"


def destinations(settings: Settings) -> str:
    """Return what may be delivered to, as DELAY_DESTINATIONS has it."""
    rules = [
        pattern if source == "*" else f"{source}:{pattern}"
        for source, patterns in settings.destinations.items()
        for pattern in patterns
    ]
    return ", ".join(rules) or "nothing (DELAY_DESTINATIONS is not set)"
