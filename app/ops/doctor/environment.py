"""What in the environment is likely to be a mistake, though a worker can start with it."""

from collections.abc import Iterable, Mapping

from app.settings.settings import Settings
from app.settings.unknown import unknown


def doubts(settings: Settings, env: Mapping[str, str]) -> Iterable[str]:
    """Yield a sentence for each thing that is likely to be a mistake, with what to do."""
    yield from unknown(env)
    if settings.signs_in and not settings.web_secret:
        yield (
            "sign-in is on, but DELAY_WEB_SECRET is not set. Without it, the workers of an installation cannot "
            "query each other, and sessions end when a worker restarts. Set the same 32 random characters on all "
            "workers."
        )
    if settings.http_destinations and not settings.http_secrets_file:
        yield (
            "DELAY_HTTP_DESTINATIONS is set, but DELAY_HTTP_SECRETS_FILE is not. Without signatures, receivers "
            "cannot verify the sender of HTTP deliveries. See docs/how-to/deliver-over-http.md."
        )
    if not (settings.destinations or settings.http_destinations):
        yield (
            "DELAY_DESTINATIONS is not set, so every request becomes a dead letter. Set it to the allowed "
            "destination topics, such as 'orders.*,reminders', or to '*' for all topics except internal ones."
        )
