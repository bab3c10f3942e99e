"""A cluster whose listeners, except the broker's own, require a user (by any mechanism) with the granted
permissions."""

import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from app.dev.broker import Broker, Node, broker, properties
from app.ops.doctor.acl import Acl
from tests.harness.certificates import Authority
from tests.harness.ports import free_port
from tests.harness.token_endpoint import TokenEndpoint
from tests.harness.waiting import LIMIT_S

TYPES = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP, "transactional id": ResourceType.TRANSACTIONAL_ID}
PATTERNS = {"literal": ResourcePatternType.LITERAL, "prefixed": ResourcePatternType.PREFIXED}
OPERATIONS = {
    "Create": AclOperation.CREATE,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
}
USERS: Final = ("worker", "producer", "consumer")
#: Listeners that require a user, and their protocols. SHORT ends sessions after SESSION_MS, MUTUAL needs a certificate.
OUTSIDE: Final = {
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "SHORT": "SASL_PLAINTEXT",
    "MUTUAL": "SSL",
}
SESSION_MS: Final = 5_000
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_SECURITY: Final = "org.apache.kafka.common.security"
_MODULES: Final = {
    "PLAIN": f"{_SECURITY}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_SECURITY}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_SECURITY}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule",
}


@dataclass
class Guarded:
    """The cluster: its listeners' ports, its users' password, and the authority of its certificates."""

    broker: Broker
    ports: dict[str, int]
    place: Path
    authority: Authority
    endpoint: TokenEndpoint
    password: str = field(repr=False)

    def grant(self, user: str, acls: Iterable[Acl]) -> None:
        """Grant a user these permissions."""
        bindings = [
            AclBinding(
                TYPES[acl.resource],
                acl.name,
                PATTERNS[acl.pattern],
                f"User:{user}",
                "*",
                OPERATIONS[operation],
                AclPermissionType.ALLOW,
            )
            for acl in acls
            for operation in acl.operations
        ]
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        for granted in admin.create_acls(bindings).values():
            granted.result(LIMIT_S)

    def outside(self, listener: str) -> str:
        """Return the listener on which a user comes in."""
        return f"127.0.0.1:{self.ports[listener]}"

    def env(self, listener: str, mechanism: str = "PLAIN", user: str = "worker") -> dict[str, str]:
        """Return the settings `KAFKA_…` with which a user comes in; secrets are in files."""
        protocol = OUTSIDE[listener]
        said = {"KAFKA_SECURITY_PROTOCOL": protocol}
        if "SSL" in protocol:
            said["KAFKA_SSL_CAFILE"] = str(self.place / "ca.pem")
        if listener == "MUTUAL":
            said["KAFKA_SSL_CERTFILE"] = str(self.place / user / "cert.pem")
            said["KAFKA_SSL_KEYFILE"] = str(self.place / user / "key.pem")
        elif mechanism == "OAUTHBEARER":
            said |= {
                "KAFKA_SASL_MECHANISM": mechanism,
                "KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL": self.endpoint.url,
                "KAFKA_SASL_OAUTHBEARER_CLIENT_ID": user,
                "KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET_FILE": str(self.place / "password"),
            }
        else:
            said |= {"KAFKA_SASL_MECHANISM": mechanism, "KAFKA_SASL_USERNAME": user}
            said["KAFKA_SASL_PASSWORD_FILE"] = str(self.place / "password")
        return said

    def client(self, listener: str, user: str) -> dict[str, str]:
        """Return the options with which a client of librdkafka comes in."""
        known = {"security.protocol": OUTSIDE[listener], "sasl.mechanism": "PLAIN", "sasl.username": user}
        return known | {"sasl.password": self.password, "ssl.ca.location": str(self.place / "ca.pem")}

    def certify(self, authority: Authority) -> None:
        """Have the broker show certificates of an authority, and accept only its, from its next start on."""
        authority.write(self.place / "broker", "broker")
        (self.place / "broker-ca.pem").write_bytes(authority.pem)

    def certify_clients(self, authority: Authority) -> None:
        """Have clients show certificates of an authority, and accept only its, from their next connection on."""
        for user in USERS:
            authority.write(self.place / user, user)
        (self.place / "ca.pem").write_bytes(authority.pem)


def _settings(ports: dict[str, int], place: Path, endpoint: TokenEndpoint, password: str) -> dict[str, str]:
    listeners = [f"{name}://127.0.0.1:{port}" for name, port in ports.items()]
    settings = {
        "listeners": ",".join(listeners),
        "advertised.listeners": ",".join(each for each in listeners if "CONTROLLER" not in each),
        "listener.security.protocol.map": ",".join(f"{name}:{OUTSIDE.get(name, 'PLAINTEXT')}" for name in ports),
        "sasl.enabled.mechanisms": ",".join(_MECHANISMS),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(place / "broker" / "both.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(place / "broker-ca.pem"),
        "listener.name.mutual.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?)$/$1/,DEFAULT",
        "sasl.oauthbearer.jwks.endpoint.url": f"{endpoint.issuer}/jwks",
        "sasl.oauthbearer.expected.audience": "kafka",
        "sasl.oauthbearer.expected.issuer": endpoint.issuer,
    }
    users = " ".join(f'user_{user}="{password}"' for user in USERS)
    for name in (name for name, protocol in OUTSIDE.items() if protocol.startswith("SASL")):
        for mechanism, module in _MODULES.items():
            prefix = f"listener.name.{name.lower()}.{mechanism.lower()}"
            known = f" {users}" if mechanism == "PLAIN" else ""
            settings[f"{prefix}.sasl.jaas.config"] = f"{module} required{known};"
            if name == "SHORT":
                settings[f"{prefix}.connections.max.reauth.ms"] = str(SESSION_MS)
        handler = f"{_SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        settings[f"listener.name.{name.lower()}.oauthbearer.sasl.server.callback.handler.class"] = handler
    return settings


class _Broker(Broker):
    """A broker with more settings and an option for its Java; other brokers of the test keep the defaults."""

    def __init__(self, place: Path, ports: dict[str, int], settings: dict[str, str], option: str) -> None:
        super().__init__(place, ports["BROKER"], node=Node(1, properties.new_cluster_id(), {1: ports["CONTROLLER"]}))
        self._settings, self._option = settings, option

    def _command(self) -> list[str]:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self._settings.items():
                patch.setitem(properties._FOR_DEVELOPMENT, name, value)
            patch.setattr(broker, "_JVM", [*broker._JVM, self._option])
            return super()._command()


@contextmanager
def guarded_cluster(place: Path) -> Iterator[Guarded]:
    """Run such a cluster with its data, certificates and secrets below a directory."""
    password, authority = f"canary-{secrets.token_hex(8)}", Authority("first")
    (place / "password").write_text(f"{password}\n", "utf-8")
    ports = {name: free_port(kept=True) for name in ("BROKER", "CONTROLLER", *OUTSIDE)}
    with TokenEndpoint(dict.fromkeys(USERS, password)) as endpoint:
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={endpoint.issuer}/jwks"
        made = _Broker(place / "data", ports, _settings(ports, place, endpoint, password), allowed)
        cluster = Guarded(made, ports, place, authority, endpoint, password)
        cluster.certify(authority)
        cluster.certify_clients(authority)
        with made:
            _let_in(made.bootstrap, password)
            yield cluster


def _let_in(bootstrap: str, password: str) -> None:
    """Create the users' SCRAM credentials."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        known = ScramCredentialInfo(kind, 4_096)
        wanted = [UserScramCredentialUpsertion(user, known, password.encode()) for user in USERS]
        for done in admin.alter_user_scram_credentials(wanted).values():
            done.result(LIMIT_S)
