"""Settings of the console (docs/reference/settings.md)."""

from dataclasses import dataclass

from app.settings.declared import setting
from app.settings.values import one_of, secret, web_address, words


@dataclass(frozen=True, kw_only=True, slots=True)
class WebSettings:
    """The console's login, addresses and access to payloads."""

    hosts: tuple[str, ...] = setting("DELAY_WEB_HOSTS", "", words)
    payloads: str = setting("DELAY_WEB_PAYLOADS", "shown", one_of("shown", "masked-for-viewers", "masked"))
    read_only_mode: str = setting("DELAY_WEB_READ_ONLY", "auto", one_of("auto", "on", "off"))
    secret: str = setting("DELAY_WEB_SECRET", "", secret)
    users_file: str = setting("DELAY_WEB_USERS_FILE", "")
    url: str = setting("DELAY_WEB_URL", "", web_address)
    metrics: str = setting("DELAY_WEB_METRICS", "signed-in", one_of("signed-in", "open"))
    insecure: str = setting("DELAY_WEB_INSECURE", "off", one_of("on", "off"))

    @property
    def signs_in(self) -> bool:
        """Whether people have to sign in."""
        return bool(self.users_file)
