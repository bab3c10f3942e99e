"""The permissions of a worker or a gateway, in the forms in which they are granted."""

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from app.ops.doctor.acl import Acl, gateway_acls, worker_acls
from app.settings.kafka import KafkaSettings
from app.settings.settings import Settings

_OPTIONS = {"topic": "--topic", "group": "--group", "transactional id": "--transactional-id"}
_STRIMZI = {"topic": "topic", "group": "group", "transactional id": "transactionalId"}
#: The version that Strimzi supports since 0.49, and the only one since 1.0.
STRIMZI_API: Final = "kafka.strimzi.io/v1"


def kafka_acls(settings: Settings, principal: str, acls: Iterable[Acl] | None = None) -> str:
    """Return commands of Kafka's own tool, one per resource, for `acls` or else a worker's permissions."""
    wanted = worker_acls(settings) if acls is None else acls
    return "\n".join(shlex.join(_command(settings.kafka, principal, acl)) for acl in wanted)


def _command(kafka: KafkaSettings, principal: str, acl: Acl) -> Iterator[str]:
    yield from ("kafka-acls", "--bootstrap-server", kafka.bootstrap, "--add", "--allow-principal", principal)
    for operation in acl.operations:
        yield from ("--operation", operation)
    yield from (_OPTIONS[acl.resource], acl.name, "--resource-pattern-type", acl.pattern)


def strimzi(settings: Settings, principal: str, acls: Iterable[Acl] | None = None, cluster: str = "my-cluster") -> str:
    """Return a KafkaUser for Strimzi's operator with `acls`, or else a worker's permissions.

    It has a certificate if the principal is `User:CN=…`, else a password. `cluster` is the name of the Kafka.
    """
    name = principal.removeprefix("User:")
    user = name.removeprefix("CN=")
    lines = [
        f"apiVersion: {STRIMZI_API}",
        "kind: KafkaUser",
        "metadata:",
        f"  name: {quoted(user)}",
        "  labels:",
        f"    strimzi.io/cluster: {quoted(cluster)}  # the name of your Kafka",
        "spec:",
        "  authentication:",
        f"    type: {'scram-sha-512' if user == name else 'tls'}",
        "  authorization:",
        "    type: simple",
        "    acls:",
    ]
    for acl in worker_acls(settings) if acls is None else acls:
        pattern = "prefix" if acl.pattern == "prefixed" else "literal"
        lines += [
            "      - resource:",
            f"          type: {_STRIMZI[acl.resource]}",
            f"          name: {quoted(acl.name)}",
            f"          patternType: {pattern}",
            f"        operations: [{', '.join(acl.operations)}]",
        ]
    return "\n".join(lines)


def quoted(text: str) -> str:
    """Return any text as a YAML string."""
    return "'" + text.replace("'", "''") + "'"


FORMS: Final[Mapping[str, Callable[[Settings, str, Iterable[Acl]], str]]] = {
    "kafka-acls": kafka_acls,
    "strimzi": strimzi,
}
WHOSE: Final[Mapping[str, Callable[[Settings], list[Acl]]]] = {"worker": worker_acls, "gateway": gateway_acls}
