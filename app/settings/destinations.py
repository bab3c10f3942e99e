"""Settings of destinations: topics, URLs and rates (docs/reference/settings.md)."""

from dataclasses import dataclass

from app.base.http.allow_list import AllowList, allow_list
from app.settings.declared import setting
from app.settings.rates import optional, rates
from app.settings.values import lower_words, patterns, url_patterns, whole
from punctual.contract.rate import Rate
from punctual.contract.times import parse_duration


@dataclass(frozen=True, kw_only=True, slots=True)
class DestinationSettings:
    """Topics and URLs that messages may go to, their rates, and when a delivery is given up.

    Allowed destinations are by input; `*` stands for all inputs.
    """

    allowed_topics: dict[str, tuple[str, ...]] = setting("DELAY_DESTINATIONS", "", patterns, shared=True)
    allowed_urls: dict[str, tuple[str, ...]] = setting("DELAY_HTTP_DESTINATIONS", "", url_patterns, shared=True)
    allowed_callbacks: dict[str, tuple[str, ...]] = setting("DELAY_CALLBACKS", "", url_patterns, shared=True)
    http_headers: tuple[str, ...] = setting("DELAY_HTTP_HEADERS", "", lower_words, shared=True)
    http_secrets_file: str = setting("DELAY_HTTP_SECRETS_FILE", "")
    give_up_ms: int = setting("DELAY_GIVE_UP", "0", parse_duration, shared=True)
    rates: dict[str, Rate] = setting("DELAY_RATES", "", rates, shared=True)
    catch_up_rate: Rate | None = setting("DELAY_CATCH_UP_RATE", "0", optional, shared=True)
    max_destinations: int = setting("DELAY_MAX_DESTINATIONS", "10000", whole(1), shared=True)

    def url_list(self, source: str) -> AllowList:
        """Return the URLs that requests on the input `source` may have as destinations."""
        return allow_list(self.allowed_urls.get(source, ()) + self.allowed_urls.get("*", ()))

    def callback_list(self, source: str) -> AllowList:
        """Return the URLs that requests on the input `source` may have as failure callbacks."""
        patterns = self.allowed_callbacks.get(source, ()) + self.allowed_callbacks.get("*", ())
        return allow_list(patterns, ("https", "http"))
