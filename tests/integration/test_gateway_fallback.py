"""The how-to's producers: messages that Kafka does not accept go to the gateway, and from there to their topic."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.dev.broker.jars import kafka_jars
from app.dev.broker.java import installed_java
from tests.harness.gateway import GatewayProcess
from tests.harness.ports import free_port
from tests.harness.waiting import PROGRAM_S
from tests.harness.worker import ROOT
from tests.integration.installation import Installation, running

_PAGE = (ROOT / "docs/how-to/gateway.md").read_text("utf-8")
KEY, VALUE = b"customer-7", b"an order"


def snippet(language: str) -> str:
    """Return the only program of the page in a language."""
    [found] = re.findall(rf"^```{language}\n(.*?)^```$", _PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.fixture(scope="module")
def installation(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with running(bootstrap, tmp_path_factory.mktemp("fallback"), "fallback") as made:
        yield made


@pytest.fixture(scope="module")
def gateway(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    data = tmp_path_factory.mktemp("gateway") / "data"
    with GatewayProcess(installation.bootstrap, installation.app_id, data) as made:
        yield made


def delivered(installation: Installation, to: str) -> None:
    """Check that the message was delivered, under its own id."""
    [record] = installation.wait_for(to, 1)
    assert (record.key, record.value) == (KEY, VALUE)
    assert record.header("message-id") == record.header("delay-id")


def test_python_hands_in_to_the_gateway_what_kafka_does_not_take(
    installation: Installation, gateway: GatewayProcess, tmp_path: Path
) -> None:
    to, program = installation.topic(), tmp_path / "safe_producer.py"
    code = snippet("python")
    for said, meant in {
        "127.0.0.1:9092": f"127.0.0.1:{free_port()}",  # a closed port
        "http://127.0.0.1:6067": gateway.url,
        '"orders"': f'"{to}"',
    }.items():
        assert said in code
        code = code.replace(said, meant)
    program.write_text(code, "utf-8")
    subprocess.run([sys.executable, str(program)], check=True, capture_output=True, timeout=PROGRAM_S)
    delivered(installation, to)


@pytest.mark.slow
def test_java_hands_in_to_the_gateway_what_kafka_does_not_take(
    installation: Installation, gateway: GatewayProcess, tmp_path: Path
) -> None:
    java = installed_java()
    if java is None or not java.resolve().with_name("javac").exists():
        pytest.skip("a JDK 17 or newer in JAVA_HOME or on PATH is needed, which compiles SafeProducer.java")
    to, program = installation.topic(), tmp_path / "SafeProducer.java"
    program.write_text(snippet("java"), "utf-8")
    jars = os.pathsep.join(str(jar) for jar in kafka_jars() if jar.name.startswith(("kafka-clients", "slf4j-api")))
    command = [str(java), "-cp", jars, str(program), f"127.0.0.1:{free_port()}", gateway.url, to]
    subprocess.run(command, check=True, capture_output=True, timeout=PROGRAM_S)
    delivered(installation, to)
