"""Variables that look like settings but are not: misspelt, or settings of an earlier version."""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Final

from app.settings.declared import variables
from app.settings.settings import Settings

_PREFIX: Final = "DELAY_"
#: Variables that Kubernetes sets for services whose names begin with `delay` (docs: Service, environment variables).
_OF_KUBERNETES: Final = re.compile(
    r"DELAY_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)
#: Hints for settings of earlier versions.
REMOVED: Final = {
    "DELAY_ACCEPT_RECREATED": "DELAY_ACCEPT_LOSS takes such topics as recreated:<topic>",
    "DELAY_CANCEL_MEMORY": "workers remember commands for 10 minutes, and longer with DELAY_HORIZON",
    "DELAY_COMMAND_MEMORY": "workers remember commands for 10 minutes, and longer with DELAY_HORIZON",
    "DELAY_EVENTS": "workers always write events, so that every message is accounted for",
    "DELAY_FIRE_BATCH": "DELAY_MAX_IN_FLIGHT is how many messages of a partition are in flight, by default 4000",
    "DELAY_FIRE_DEPTH": "DELAY_MAX_IN_FLIGHT is how many messages of a partition are in flight, by default 4000",
    "DELAY_GATEWAY_BATCH": "a request to the gateway has at most 1,000 messages",
    "DELAY_GATEWAY_CONNECTIONS": "a gateway has at most 1,000 connections",
    "DELAY_GATEWAY_CONNECTIONS_OF_ONE": "a gateway has at most 500 connections from one address",
    "DELAY_GATEWAY_DATADIR": "a gateway keeps its data in DATADIR, in the directory gateway",
    "DELAY_GATEWAY_DEDUPE": (
        "messages of a gateway are deduplicated for a day, or for DELAY_DEDUPE_WINDOW if that is longer. For another "
        "time, set dedupe of the input in DELAY_POLICIES"
    ),
    "DELAY_GATEWAY_MAX_BODY": "the body of a request to the gateway has at most 4 MiB",
    "DELAY_GATEWAY_MIN_FREE_DISK": "a gateway leaves 256 MiB of its disk free",
    "DELAY_GATEWAY_PATIENCE": "a gateway waits 2 seconds for Kafka before it spools a record",
    "DELAY_GATEWAY_SPOOL_AGE": "the oldest record in the spool of a gateway is at most 12 hours old",
    "DELAY_HTTP_GIVE_UP": (
        "a message for a URL becomes a dead letter three days after its due time. For less, use delay-max-late, or "
        "max-late in DELAY_POLICIES"
    ),
    "DELAY_MAX_DEDUPE": (
        "the maximum delay-dedupe of a request is 30 days. DELAY_DEDUPE_WINDOW and dedupe in DELAY_POLICIES may be "
        "longer, and raise it"
    ),
    "DELAY_MAX_DELAY": "the maximum delay of a message is 1,827 days (five years)",
    "DELAY_MAX_MISSED": "a recurring message catches up with at most 10,000 missed occurrences",
    "DELAY_MIN_FREE_DISK": "workers leave a twentieth of the disk free, between 64 MiB and 1 GiB",
    "DELAY_MIN_INSYNC_REPLICAS": "it is 2 if DELAY_REPLICATION_FACTOR is 2 or more",
    "DELAY_SKIP_RECORDS": "DELAY_ACCEPT_LOSS takes such records, as they are",
    "DELAY_TRACES": "workers send spans if OTEL_TRACES_EXPORTER is otlp",
    "DELAY_WEB_OIDC_CLIENT_ID": "client_id in [provider] of the access file replaces it",
    "DELAY_WEB_OIDC_CLIENT_SECRET_FILE": "client_secret_file in [provider] of the access file replaces it",
    "DELAY_WEB_OIDC_ISSUER": "issuer in [provider] of the access file replaces it",
    "DELAY_WEB_OIDC_ROLES": "[groups] in the access file replace it",
    "DELAY_WEB_OIDC_SCOPES": "scopes, a list, in [provider] of the access file replaces it",
    "KAFKA_SASL_OAUTHBEARER_CAFILE": "SSL_CERT_FILE is the file of the authorities that a worker trusts",
}


def unknown(env: Mapping[str, str]) -> Iterable[str]:
    """Yield a sentence about each variable of `env` that only looks like a setting, with what to do."""
    known = {name for setting in Settings.declared() for name in variables(setting)}
    names = {name.removeprefix(_PREFIX): name for name in sorted(known)}
    for name in sorted(env.keys() - known):
        if name in REMOVED:
            yield f"{name} is set, but is no longer a setting: {REMOVED[name]}. Remove it."
        elif name.startswith(_PREFIX) and not _OF_KUBERNETES.fullmatch(name):
            near = difflib.get_close_matches(name.removeprefix(_PREFIX), names, 1)
            meant = f"did you mean {names[near[0]]}?" if near else "it is ignored."
            yield f"{name} is set, but there is no such setting: {meant} See docs/reference/settings.md."
