"""The plan of a worker's processes: their number, ports and environments."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from yarl import URL

from app.base.errors import SettingInvalid
from app.settings.process import ProcessSettings
from app.settings.settings import Settings

#: The environment variable, for messages.
NAME: Final = "DELAY_PROCESSES"
#: Processes listen this far above the worker's port, so that a gateway or a second worker has room next to it.
PORTS_FROM: Final = 10
_MOST_PORT: Final = 65_535
#: Hosts that include this machine, and its address for each: IPv6 and IPv4 differ.
_HERE: Final = {"0.0.0.0": "127.0.0.1", "localhost": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not listened on


@dataclass(frozen=True, slots=True)
class Process:
    """A worker process to start: its number, from 1 on, its port, and its environment."""

    number: int
    port: int
    #: The address of its console on this machine.
    url: str
    env: dict[str, str]


def plan(count: int, settings: Settings, env: Mapping[str, str]) -> list[Process]:
    """Return the processes of a worker; ports, data directories and addresses follow from a single worker's.

    Raises SettingInvalid if there are more processes than partitions, or too few ports.
    """
    if count > settings.topics.partitions:
        why = (
            f"there are only {settings.topics.partitions} partitions (DELAY_PARTITIONS), so more processes would have "
            "no work"
        )
        raise SettingInvalid(NAME, str(count), why)
    if settings.process.port + PORTS_FROM + count > _MOST_PORT:
        why = (
            f"with {count} processes, the maximum is {_MOST_PORT - PORTS_FROM - count}, because each process listens "
            "on a port above it"
        )
        raise SettingInvalid("PORT", str(settings.process.port), why)
    return [_process(number, settings.process, settings.people_url, env) for number in range(1, count + 1)]


def _process(number: int, process: ProcessSettings, people_url: str, env: Mapping[str, str]) -> Process:
    port = process.port + PORTS_FROM + number
    own = {**env, NAME: "1", "PORT": str(port), "DELAY_WEB_URL": people_url}
    if process.datadir:
        own["DATADIR"] = str(Path(process.datadir) / f"process-{number}")
    if process.worker_url:
        own["WORKER_URL"] = str(URL(process.worker_url).with_port(port))
    host = _HERE.get(process.host, process.host)
    return Process(number, port, str(URL.build(scheme=process.scheme, host=host, port=port)), own)
