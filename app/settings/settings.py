"""Settings: environment variables, typed and checked at start (docs/reference/settings.md)."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from app.base.errors import SettingInvalid
from app.settings.checks import check
from app.settings.declared import read_section
from app.settings.destinations import DestinationSettings
from app.settings.engine import EngineSettings
from app.settings.gateway import SPOOL, GatewaySettings
from app.settings.kafka import KafkaSettings
from app.settings.process import ProcessSettings
from app.settings.retention import RetentionSettings
from app.settings.topics import TopicSettings
from app.settings.web import WebSettings

if TYPE_CHECKING:
    from dataclasses import Field

#: Settings that once turned on the login. The start fails if one is still set: all users or none could sign in.
_FORMER_FILES = ("DELAY_WEB_OIDC_FILE", "DELAY_GATEWAY_TOKENS_FILE")
_FORMER_SIGN_IN = "DELAY_WEB_OIDC_ISSUER"


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """All settings of a worker and a gateway, by section, consistent with each other.

    Only the code that assembles the parts takes all settings; each part takes the sections that it needs.
    """

    kafka: KafkaSettings
    topics: TopicSettings
    destinations: DestinationSettings
    retention: RetentionSettings
    engine: EngineSettings
    process: ProcessSettings
    web: WebSettings
    gateway: GatewaySettings

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> "Settings":
        """Read the settings from `env`.

        Raises SettingInvalid, which names the variable and its valid values.
        """
        for name in _FORMER_FILES:
            if path := env.get(name):
                why = (
                    f"it is no longer a setting. Remove it, and set DELAY_WEB_USERS_FILE to {path}, or to a file to "
                    f"which you add the output of `punctual access convert {path}`"
                )
                raise SettingInvalid(name, path, why)
        issuer = env.get(_FORMER_SIGN_IN)
        if issuer and not env.get("DELAY_WEB_USERS_FILE"):
            why = (
                "it is no longer a setting, and the console would need no login. Write a file with [provider] and "
                "[groups] (docs/how-to/access.md), and set DELAY_WEB_USERS_FILE to its path"
            )
            raise SettingInvalid(_FORMER_SIGN_IN, issuer, why)
        settings = cls(**{name: read_section(section, env) for name, section in get_type_hints(cls).items()})
        check(
            settings.kafka,
            settings.topics,
            settings.destinations,
            settings.retention,
            settings.engine,
            settings.process,
        )
        return settings

    @classmethod
    def declared(cls) -> "Iterator[Field[Any]]":
        """Yield the declaration of each setting of each section."""
        for section in get_type_hints(cls).values():
            yield from fields(section)

    def values(self, *, shared: bool = False) -> Iterator[tuple[str, Any]]:
        """Yield the variable and the value of each setting; with `shared`, only of shared settings."""
        for part in fields(self):
            section = getattr(self, part.name)
            for declared in fields(section):
                if declared.metadata["shared"] or not shared:
                    yield declared.metadata["env"], getattr(section, declared.name)

    def repartitioned(self, partitions: int) -> "Settings":
        """Return the settings of the same installation with another number of partitions."""
        return replace(self, topics=replace(self.topics, partitions=partitions, repartitioned="on"))

    # values from two sections ----------------------------------------------------------------------------------------
    @property
    def data_path(self) -> Path:
        """The data directory; by default it follows from the port, so that workers run side by side."""
        return Path(self.process.datadir or f".data/{self.topics.app_id}-{self.process.port}")

    @property
    def gateway_path(self) -> Path:
        """The gateway's data directory; by default it follows from the port, so that gateways run side by side.

        In DATADIR it does not depend on the port, so a gateway on another port goes on with the spool. A spool of an
        earlier version in DATADIR itself, or in the default place, is used there.
        """
        default = Path(f".data/{self.topics.app_id}-gateway-{self.gateway.port}")
        if not self.process.datadir:
            return default
        place = Path(self.process.datadir) / "gateway"
        return next((one for one in (place, Path(self.process.datadir), default) if (one / SPOOL).is_dir()), place)

    @property
    def read_only(self) -> bool:
        """Whether HTTP only reads: by default if other machines reach the port and no login is needed."""
        if self.web.read_only_mode == "auto":
            return self.process.public and not self.web.signs_in
        return self.web.read_only_mode == "on"

    @property
    def people_url(self) -> str:
        """The address at which people open the console."""
        return (self.web.url or self.process.url).rstrip("/")
