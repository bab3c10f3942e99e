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
            "people have to sign in, and DELAY_WEB_SECRET is not set: the workers of an installation tell each other "
            "nothing without it, and sessions end with their worker. Give all workers the same 32 random characters."
        )
    if settings.http_destinations and not settings.http_secrets_file:
        yield (
            "DELAY_HTTP_DESTINATIONS is set, and DELAY_HTTP_SECRETS_FILE is not: what is posted is not signed, so no "
            "receiver can know whose it is. docs/how-to/deliver-over-http.md says how."
        )
    if not (settings.destinations or settings.http_destinations):
        yield (
            "DELAY_DESTINATIONS is not set: no message will be accepted, each request becomes a dead letter. Set it to "
            "the topics that may be delivered to, such as 'orders.*,reminders', or to '*' for all but internal ones."
        )
