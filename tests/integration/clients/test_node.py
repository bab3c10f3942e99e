"""The programs of docs/how-to/use-from-node.md run: over HTTP as they stand, and with KafkaJS."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness.gateway import GatewayProcess
from tests.harness.waiting import PROGRAM_S
from tests.harness.worker import ROOT
from tests.integration.installation import Installation

_PAGE = (ROOT / "docs/how-to/use-from-node.md").read_text("utf-8")
_HTTP, _KAFKAJS = re.findall(r"^```js\n(.*?)^```$", _PAGE, re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


def run(program: str, *arguments: str, directory: Path) -> str:
    (directory / "program.mjs").write_text(program, "utf-8")
    command = [shutil.which("node") or "node", "program.mjs", *arguments]
    return subprocess.run(command, cwd=directory, check=True, timeout=PROGRAM_S, capture_output=True, text=True).stdout


def test_the_program_for_http_schedules_and_cancels(installation: Installation, tmp_path: Path) -> None:
    to = installation.topic()
    with GatewayProcess(installation.bootstrap, installation.app_id, tmp_path / "gateway") as gateway:
        written = run(_HTTP, gateway.url, to, directory=tmp_path)

    assert written == "scheduled two messages; the second is cancelled\n"
    [delivery] = installation.wait_for(to, 1)
    assert (delivery.key, delivery.value) == (b"customer-7", b'{"order":42}')
    assert delivery.timestamp_ms >= int(delivery.header("delay-due"))


def test_the_program_for_http_tries_again_until_a_gateway_answers(installation: Installation, tmp_path: Path) -> None:
    to = installation.topic()
    gateway = GatewayProcess(installation.bootstrap, installation.app_id, tmp_path / "gateway")
    (tmp_path / "program.mjs").write_text(_HTTP, "utf-8")
    command = [shutil.which("node") or "node", "program.mjs", gateway.url, to]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as program, gateway:
        written, _ = program.communicate(timeout=PROGRAM_S)

    assert (program.returncode, written) == (0, "scheduled two messages; the second is cancelled\n")
    assert len(installation.wait_for(to, 1)) == 1


@pytest.mark.skipif("CLIENTS" not in os.environ, reason="KafkaJS is fetched first: make test NAME=clients")
def test_the_program_with_kafkajs_schedules_and_cancels(installation: Installation, tmp_path: Path) -> None:
    to = installation.topic()
    npm = shutil.which("npm") or "npm"
    subprocess.run([npm, "install", "--silent", "kafkajs@2.2.4"], cwd=tmp_path, check=True, timeout=PROGRAM_S)
    program = _KAFKAJS.replace('"delay-requests"', f'"{installation.requests.topic}"')
    assert program != _KAFKAJS
    assert run(program, installation.bootstrap, to, directory=tmp_path) == "scheduled two messages and cancelled one\n"

    installation.await_event("cancelled", "order-43")
    [delivery] = installation.wait_for(to, 1)
    assert (delivery.key, delivery.value) == (b"customer-7", b"hello")


@pytest.mark.skipif("CLIENTS" not in os.environ, reason="KafkaJS is fetched first: make test NAME=clients")
def test_a_record_that_failed_in_node_comes_back_as_its_next_attempt(
    installation: Installation, tmp_path: Path
) -> None:
    to = installation.topic()
    npm = shutil.which("npm") or "npm"
    subprocess.run([npm, "install", "--silent", "kafkajs@2.2.4"], cwd=tmp_path, check=True, timeout=PROGRAM_S)
    head, _, _ = _KAFKAJS.partition("await sendLater(")
    failed = """
const message = { key: "k", value: "failed", headers: { trace: "1" }, offset: "17" };
await retry({ topic, partition: 0, message });
await retry({ topic, partition: 0, message });
await producer.disconnect();
"""
    program = head.replace('"delay-requests"', f'"{installation.requests.topic}"') + failed
    run(program, installation.bootstrap, to, directory=tmp_path)

    [delivery] = installation.wait_for(to, 1)
    assert (delivery.key, delivery.value, delivery.header("trace")) == (b"k", b"failed", "1")
    assert delivery.header("delay-attempt") == "2"
