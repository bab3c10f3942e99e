"""Checks the permissions of the settings' user, as far as the brokers report them (KIP-430)."""

import fnmatch
from collections.abc import Iterator

from app.ops.doctor.acl import Acl, worker_acls
from app.ops.doctor.facts import Facts, Topic
from app.ops.doctor.finding import Finding
from app.settings.settings import Settings

CHECK = "rights"
_SOMEBODY = "this user"
#: Operations on a destination that a worker can do without.
_OF_DESTINATIONS = frozenset({"Read"})


def check(settings: Settings, facts: Facts) -> Iterator[Finding]:
    """Yield the missing permissions of a worker on its own cluster, and the unknown ones."""
    user = settings.kafka.login.user or _SOMEBODY
    acls, reported = worker_acls(settings), False
    for topic in facts.cluster.topics.values():
        wanted = {operation for acl in acls if _covers(acl, topic.name) for operation in acl.operations} - {"Create"}
        if not wanted or topic.absent:
            continue
        granted = _granted(topic)
        reported = reported or granted is not None
        goes_without = frozenset() if topic.name in settings.topics.internal_topics else _OF_DESTINATIONS
        yield from _lacking("topic", topic.name, user, wanted, granted, goes_without)
    for name, cluster in facts.others.items():
        there = settings.kafka.login_to(name).user or _SOMEBODY
        for topic in cluster.topics.values():
            if topic.there:  # a topic without Describe may be on another cluster only, which is a warning
                known_as, wanted = f"{topic.name} of cluster {name}", {"Read", "Write"}
                yield from _lacking("topic", known_as, there, wanted, topic.operations, _OF_DESTINATIONS)
    group = facts.cluster.group_operations
    yield from _lacking("group", settings.topics.app_id, user, {"Read"}, group)
    if settings.engine.exactly_once:
        sentence = (
            f"it is unknown whether {user} may use the transactional IDs that begin with {settings.topics.app_id}-: "
            "brokers do not report this permission. Without it, a worker exits at startup with an error message."
        )
        yield Finding("ok", CHECK, f"{settings.topics.app_id}-", sentence)
    if not reported and group is None:
        yield Finding("ok", CHECK, user, f"the permissions of {user} are unknown: the brokers do not report them.")


def _covers(acl: Acl, topic: str) -> bool:
    if acl.resource != "topic":
        return False
    if acl.pattern == "prefixed":
        return topic.startswith(acl.name)
    return fnmatch.fnmatchcase(topic, acl.name) if acl.name == "*" else topic == acl.name


def _granted(topic: Topic) -> frozenset[str] | None:
    return frozenset() if topic.error == "TopicAuthorizationFailedError" else topic.operations


def _lacking(
    kind: str,
    name: str,
    user: str,
    wanted: set[str],
    granted: frozenset[str] | None,
    goes_without: frozenset[str] = frozenset(),
) -> Iterator[Finding]:
    if granted is None:
        return
    lacking = sorted(wanted - granted)
    if lacking:
        sentence = (
            f"{user} lacks {', '.join(lacking)} on {kind} {name}. Grant it: `faust -A app doctor --acls kafka-acls "
            f"--principal User:{_principal(user)}` prints all permissions that a worker needs."
        )
        if goes_without.issuperset(lacking):
            sentence += " Without it, messages that arrived just before a worker died may be delivered twice."
            yield Finding("warning", CHECK, name, sentence)
        else:
            yield Finding("error", CHECK, name, sentence)
    else:
        yield Finding("ok", CHECK, name, f"{user} has all permissions that a worker needs on {kind} {name}.")


def _principal(user: str) -> str:
    return "…" if user == _SOMEBODY else user
