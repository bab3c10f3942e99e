"""Behind SASL, TLS and ACLs a worker needs the rights that the page for operators names, and no others."""

import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from app.embedded import Broker, Node, properties
from app.embedded.ports import free_port
from tests.harness.account import Account
from tests.harness.kafka import Requests, create_topic, now_ms
from tests.harness.worker import Worker
from tests.integration.installation import PARTITIONS, Installation, new_app_id

PAGE = Path(__file__).parents[2] / "docs/how-to/operate.md"
RIGHT = re.compile(
    r"^\| (topic|group|transactional id)(, prefix)? \| ([^|]+) \| ([^|]+) \| (always|exactly once) \|$", re.MULTILINE
)
TYPES = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP, "transactional id": ResourceType.TRANSACTIONAL_ID}
OPERATIONS = {
    "Create": AclOperation.CREATE,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
}


@dataclass
class Guarded:
    """A cluster on which all but the broker's own listener want a user, and grant it what it was given."""

    broker: Broker
    ports: dict[str, int]
    certificate: Path | None
    password: str

    def grant(self, app_id: str, destination: str, guarantee: str) -> None:
        """Grant the worker what the page says."""
        rights = [row for row in RIGHT.findall(PAGE.read_text()) if row[4] == "always" or guarantee == "exactly_once"]
        assert len(rights) >= 4
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        bindings = [
            AclBinding(
                TYPES[kind],
                destination if "destination" in name else name.strip("`").replace("<id>", app_id),
                ResourcePatternType.PREFIXED if prefix else ResourcePatternType.LITERAL,
                "User:worker",
                "*",
                OPERATIONS[operation],
                AclPermissionType.ALLOW,
            )
            for kind, prefix, name, operations, _ in rights
            if "DELAY_INPUTS" not in name
            for operation in operations.split(", ")
        ]
        for granted in admin.create_acls(bindings).values():
            granted.result(30)

    def env(self, protocol: str) -> dict[str, str]:
        """Return the settings with which a worker comes in."""
        known = {"KAFKA_SECURITY_PROTOCOL": protocol, "KAFKA_SASL_MECHANISM": "PLAIN", "KAFKA_SASL_USERNAME": "worker"}
        return known | {"KAFKA_SASL_PASSWORD": self.password, "KAFKA_SSL_CAFILE": str(self.certificate or "")}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory, password = tmp_path_factory.mktemp("guarded"), secrets.token_hex()
    certificate, keystore = _certificate(directory)
    ports = {name: free_port() for name in ("BROKER", "CONTROLLER", "SASL_PLAINTEXT", "SASL_SSL")}
    if keystore is None:
        del ports["SASL_SSL"]
    listeners = [f"{name}://127.0.0.1:{port}" for name, port in ports.items()]
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = {
        "listeners": ",".join(listeners),
        "advertised.listeners": ",".join(each for each in listeners if "CONTROLLER" not in each),
        "listener.security.protocol.map": ",".join(
            f"{name}:{name if name.startswith('SASL') else 'PLAINTEXT'}" for name in ports
        ),
        "sasl.enabled.mechanisms": "PLAIN",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keystore),
        **{
            f"listener.name.{name.lower()}.plain.sasl.jaas.config": f'{login} user_worker="{password}";'
            for name in ports
            if name.startswith("SASL")
        },
    }
    if keystore is None:
        del settings["ssl.keystore.type"], settings["ssl.keystore.location"]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setitem(properties._FOR_DEVELOPMENT, name, value)
        node = Node(1, properties.new_cluster_id(), {1: ports["CONTROLLER"]})
        with Broker(directory / "data", ports["BROKER"], node=node) as broker:
            yield Guarded(broker, ports, certificate, password)


def _certificate(directory: Path) -> tuple[Path | None, Path | None]:
    """Make a certificate for 127.0.0.1, and beside it a file with its key too; None without openssl."""
    if shutil.which("openssl") is None:
        return None, None
    certificate, key, both = (directory / name for name in ("certificate.pem", "key.pem", "both.pem"))
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, *subject],  # noqa: S607
        check=True,
        capture_output=True,
    )
    both.write_bytes(key.read_bytes() + certificate.read_bytes())
    return certificate, both


@pytest.mark.parametrize(("protocol", "guarantee"), [("SASL_SSL", "at_least_once"), ("SASL_PLAINTEXT", "exactly_once")])
def test_a_worker_with_the_rights_that_the_page_names_serves(
    guarded: Guarded, tmp_path: Path, protocol: str, guarantee: str
) -> None:
    if protocol not in guarded.ports:
        pytest.skip("there is no openssl to make a certificate")
    app_id, inside = new_app_id("guarded"), guarded.broker.bootstrap
    to = create_topic(inside, f"{app_id[::-1]}-to")  # not by the prefix
    guarded.grant(app_id, to, guarantee)
    env = {**guarded.env(protocol), "DELAY_GUARANTEE": guarantee}
    outside = f"127.0.0.1:{guarded.ports[protocol]}"
    with Worker(outside, app_id, tmp_path / app_id, partitions=PARTITIONS, env=env) as worker:
        worker.start().wait_ready()
        here = Installation(inside, app_id, worker, Requests(inside, app_id))
        for life in range(2):
            here.requests.schedule(f"{life}", now_ms() + 500, to, b"%d" % life)
            here.requests.flush()
            here.await_event("delivered", f"{life}")
            worker.kill()
            worker.start().wait_ready()
        assert [record.value for record in here.wait_for(to, 2)] == [b"0", b"1"]
        assert not here.events("refused")
        Account.settled(inside, app_id)
        assert "uthorization" not in worker.log


def test_exactly_once_a_worker_that_may_not_use_its_transactional_ids_says_so(guarded: Guarded, tmp_path: Path) -> None:
    app_id = new_app_id("guarded")
    guarded.grant(app_id, f"{app_id}-to", "at_least_once")
    env = {**guarded.env("SASL_PLAINTEXT"), "DELAY_GUARANTEE": "exactly_once"}
    outside = f"127.0.0.1:{guarded.ports['SASL_PLAINTEXT']}"
    with Worker(outside, app_id, tmp_path / app_id, partitions=PARTITIONS, env=env) as worker:
        assert worker.start().wait_dead() == 1
        assert f"do not let this worker use the transactional id {app_id}-" in worker.log
        assert "Traceback" not in worker.log
