"""The tutorial's first program, against a worker started as the tutorial starts one."""

import re
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.demo.worker import Worker
from app.embedded.ports import free_port

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
async def app_id(bootstrap: str, tmp_path: Path) -> AsyncIterator[str]:
    name = f"tutorial-{uuid.uuid4().hex[:12]}"
    settings = {
        "KAFKA_BOOTSTRAP_SERVERS": bootstrap,
        "DELAY_APP_ID": name,
        "DELAY_DESTINATIONS": "*",
        "DELAY_REPLICATION_FACTOR": "1",
    }
    worker = Worker(tmp_path / "worker", free_port(), settings, temporary=False)
    try:
        worker.start()
        await worker.wait_ready()
        yield name
    finally:
        worker.stop()


def test_the_first_message_arrives_and_the_cancelled_one_does_not(app_id: str, bootstrap: str) -> None:
    [program] = re.findall(r"```python\n(.*?)```", TUTORIAL.read_text(), re.DOTALL)
    for shown, here in {
        '"127.0.0.1:9092"': f'"{bootstrap}"',
        "DelayClient(KAFKA)": f'DelayClient(KAFKA, app_id="{app_id}")',
        '"hello"': f'"{app_id}-hello"',
    }.items():
        assert shown in program
        program = program.replace(shown, here)

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)

    assert re.fullmatch(
        rf"b'world' {{'delay-id': b'({app_id}-requests-\d+-\d+)', 'delay-due': b'\d{{13}}', 'delay-source': b'\1'}}\n",
        ran.stdout,
    )
