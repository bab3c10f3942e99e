"""Settings: environment variables, typed and checked at start. docs/reference/settings.md documents each of them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields

from app.settings.checks import check
from app.settings.declared import read
from app.settings.worker import WorkerSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings(WorkerSettings):
    """All settings of a worker and a gateway, which make sense together."""

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> "Settings":
        """Read the settings from `env`.

        Raises SettingInvalid, which names the variable and says what it takes.
        """
        settings = cls(**{declared.name: read(declared, env) for declared in fields(cls)})
        check(settings)
        return settings
