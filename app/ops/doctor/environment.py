"""What in the environment is likely to be a mistake, though a worker can start with it."""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields

from app.settings.settings import Settings

_PREFIX = "DELAY_"
#: What Kubernetes tells a container of services whose names begin with `delay` (docs: Service, environment variables).
_OF_KUBERNETES = re.compile(
    r"DELAY_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)


def doubts(settings: Settings, env: Mapping[str, str]) -> Iterable[str]:
    """Yield a sentence for each thing that is likely to be a mistake, with what to do."""
    known = {setting.metadata[name] for setting in fields(Settings) for name in ("env", "was")}
    names = {name.removeprefix(_PREFIX): name for name in sorted(known)}
    for name in sorted(env.keys() - known):
        if name.startswith(_PREFIX) and not _OF_KUBERNETES.fullmatch(name):
            near = difflib.get_close_matches(name.removeprefix(_PREFIX), names, 1)
            meant = f"did you mean {names[near[0]]}?" if near else "it is ignored."
            yield f"{name} is set, but there is no such setting: {meant} See docs/reference/settings.md."
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
