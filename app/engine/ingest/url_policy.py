"""Which URLs may be asked for as destinations."""

from app.base.http.allow_list import NotListed
from app.settings.settings import Settings
from punctual.contract.request import Reason, Refusal, Request


class UrlPolicy:
    """Says no to requests for URLs that the settings do not allow, and has others ask for what will be connected to."""

    def __init__(self, settings: Settings) -> None:
        """Read the rules from the settings."""
        self._settings = settings

    def forbids(self, source: str, url: str) -> str:
        """Return why requests on an input may not have a URL as their destination; empty if they may."""
        try:
            self._settings.url_list(source).allowed(url)
        except ValueError as error:
            return f"DELAY_HTTP_DESTINATIONS does not allow this URL for requests on {source}: it {error}"
        return ""

    def check(self, request: Request) -> None:
        """Refuse a request whose destination is a URL that is not allowed; one that is has its usual spelling then.

        Raises Refusal.
        """
        words = self._settings.dialect(request.input).words
        beside = words.partition if request.partition is not None else words.cluster if request.cluster else ""
        if beside:
            raise Refusal(Reason.MALFORMED, f"{words.to} is a URL, but {beside} works only with topics. Leave it out.")
        try:
            request.to = str(self._settings.url_list(request.input).allowed(request.to).target.url)
        except NotListed as error:
            raise Refusal(
                Reason.NOT_ALLOWED,
                f"DELAY_HTTP_DESTINATIONS does not allow this URL for requests on {request.input}: it {error}. "
                "Add a pattern there.",
            ) from error
        except ValueError as error:
            raise Refusal(Reason.MALFORMED, f"{words.to} {error}.") from error
