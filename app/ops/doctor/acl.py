"""The minimal permissions of workers, producers and consumers on a cluster with ACLs.

Read, Write and Delete imply Describe, so Describe is listed only without them.
"""

import re
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

from app.settings.destinations import DestinationSettings
from app.settings.settings import Settings
from app.settings.topics import TopicSettings

_WILDCARD: Final = re.compile(r"[*?[]")
_EXACTLY_ONCE: Final = "exactly once"


class Acl(NamedTuple):
    """A permission: operations on resources, by Kafka's names, and in words when it is needed."""

    resource: Literal["topic", "group", "transactional id"]
    name: str
    pattern: Literal["literal", "prefixed"]
    operations: tuple[str, ...]
    when: str = "always"


def worker_acls(settings: Settings) -> list[Acl]:
    """Return the permissions of a worker with these settings on its own cluster."""
    own = f"{settings.topics.app_id}-"
    acls = [
        Acl("topic", own, "prefixed", ("Create", "DescribeConfigs", "Read", "Write")),
        *(Acl("topic", name, "literal", ("DescribeConfigs", "Read")) for name in settings.topics.extra_inputs),
        # A worker reads destinations for messages that arrived before a crash, or exactly once for open transactions.
        *_destinations(settings.destinations, ("Read", "Write")),
        Acl("group", settings.topics.app_id, "literal", ("Read",)),
    ]
    if settings.engine.exactly_once:
        acls.append(Acl("transactional id", own, "prefixed", ("Write",), _EXACTLY_ONCE))
    return acls


def gateway_acls(settings: Settings) -> list[Acl]:
    """Return the permissions of a gateway."""
    return [
        *(Acl("topic", name, "literal", ("Write",)) for name in settings.topics.inputs),
        Acl("topic", settings.topics.receipts, "literal", ("Create", "DescribeConfigs", "Read", "Write")),
        Acl("topic", settings.topics.dead_letters, "literal", ("Write",)),
        Acl("topic", settings.topics.events_topic, "literal", ("Read",)),
        Acl("topic", settings.topics.progress, "literal", ("Read",)),
        *_destinations(settings.destinations, ("Describe",)),
    ]


def producer_acls(topics: TopicSettings) -> list[Acl]:
    """Return the permissions of producers of requests and commands, on all inputs."""
    return [Acl("topic", name, "literal", ("Write",)) for name in topics.inputs]


def consumer_acls(destinations: DestinationSettings, group: str) -> list[Acl]:
    """Return the permissions of a consumer `group`, on all topics that messages may be delivered to."""
    return [*_destinations(destinations, ("Read",)), Acl("group", group, "literal", ("Read",))]


def _destinations(destinations: DestinationSettings, operations: tuple[str, ...]) -> Iterable[Acl]:
    """Yield a permission for each pattern of destinations; for `*-late`, ACLs can only allow all topics."""
    patterns = dict.fromkeys(pattern for listed in destinations.allowed_topics.values() for pattern in listed)
    named = dict.fromkeys(_topics(pattern) for pattern in patterns)
    if ("*", "literal") in named:  # it includes the others
        named = {("*", "literal"): None}
    for name, pattern in named:
        yield Acl("topic", name, pattern, operations)


def _topics(pattern: str) -> tuple[str, Literal["literal", "prefixed"]]:
    """Return the narrowest name and pattern type of an ACL that covers a pattern of destinations."""
    wildcard = _WILDCARD.search(pattern)
    if wildcard is None:
        return pattern, "literal"
    before = pattern[: wildcard.start()]
    return (before, "prefixed") if before else ("*", "literal")
