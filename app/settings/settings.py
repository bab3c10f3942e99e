"""Settings: environment variables, typed and checked at start. docs/reference/settings.md documents each of them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields

from app.base.errors import SettingInvalid
from app.settings.checks import check
from app.settings.declared import read
from app.settings.worker import WorkerSettings

#: It asked for sign-in. Where it is still set, a warning would not do: the console would be open.
_FORMER_SIGN_IN = "DELAY_WEB_OIDC_ISSUER"


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings(WorkerSettings):
    """All settings of a worker and a gateway, which make sense together."""

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> "Settings":
        """Read the settings from `env`.

        Raises SettingInvalid, which names the variable and says what it takes.
        """
        issuer = env.get(_FORMER_SIGN_IN)
        if issuer and not env.get("DELAY_WEB_OIDC_FILE"):
            why = (
                "it is no longer a setting, and the console would need no login. Write issuer, client_id and roles "
                "into a TOML file, and set DELAY_WEB_OIDC_FILE to its path"
            )
            raise SettingInvalid(_FORMER_SIGN_IN, issuer, why)
        settings = cls(**{declared.name: read(declared, env) for declared in fields(cls)})
        check(settings)
        return settings
