"""The rights that a worker needs, in the forms in which they are granted."""

import shlex
from collections.abc import Iterator

from app.process.acl import Acl, worker_acls
from app.settings import Settings

_OPTIONS = {"topic": "--topic", "group": "--group", "transactional id": "--transactional-id"}
_STRIMZI = {"topic": "topic", "group": "group", "transactional id": "transactionalId"}


def kafka_acls(settings: Settings, principal: str) -> str:
    """Return commands of Kafka's own tool, one for each resource."""
    return "\n".join(shlex.join(_command(settings, principal, acl)) for acl in worker_acls(settings))


def _command(settings: Settings, principal: str, acl: Acl) -> Iterator[str]:
    yield from ("kafka-acls", "--bootstrap-server", settings.bootstrap, "--add", "--allow-principal", principal)
    for operation in acl.operations:
        yield from ("--operation", operation)
    yield from (_OPTIONS[acl.resource], acl.name, "--resource-pattern-type", acl.pattern)


def strimzi(settings: Settings, principal: str) -> str:
    """Return a KafkaUser for Strimzi's operator; which cluster it is of is for its reader to say."""
    user = principal.removeprefix("User:")
    lines = [
        "apiVersion: kafka.strimzi.io/v1beta2",
        "kind: KafkaUser",
        "metadata:",
        f"  name: {_quoted(user)}",
        "  labels:",
        "    strimzi.io/cluster: my-cluster  # the name of your Kafka",
        "spec:",
        "  authorization:",
        "    type: simple",
        "    acls:",
    ]
    for acl in worker_acls(settings):
        pattern = "prefix" if acl.pattern == "prefixed" else "literal"
        lines += [
            "      - resource:",
            f"          type: {_STRIMZI[acl.resource]}",
            f"          name: {_quoted(acl.name)}",
            f"          patternType: {pattern}",
            f"        operations: [{', '.join(acl.operations)}]",
        ]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


FORMS = {"kafka-acls": kafka_acls, "strimzi": strimzi}
