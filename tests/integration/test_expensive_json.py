"""JSON of millions of fields costs a worker no more than other JSON of its size, and others get theirs in time."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka.codec import zstd_encode

from tests.harness.kafka import now_ms, read
from tests.harness.raw import PackedBatch, record_of, send_batches
from tests.integration.conftest import Run
from tests.integration.installation import ON_TIME_MS, Installation, late_ms

SIZE, TIMES = 30 << 20, 4
ASKS = b'{"topic":"orders","postTime":%d,"value":"x"' % (now_ms() + 3_600_000)


def expensive(shape: str) -> bytes:
    """Return JSON of very many fields, or of very many headers."""
    fields = b"".join(b',"%07d":1' % number for number in range(SIZE // 12))
    if shape == "fields":  # the name of ours inside has all fields searched for a second one
        return ASKS + b',"a":{"topic":1}' + fields + b"}"
    return ASKS + b',"headers":{' + fields.replace(b":1", b':""')[1:SIZE] + b'":""}}'


@pytest.fixture(scope="module")
def installation(run: Run) -> Iterator[Installation]:
    with run("json", env=lambda app_id: {"DELAY_INPUTS": f"{app_id}-json=airtel"}, balanced=False) as made:
        made.alter(f"{made.app_id}-json", max_message_bytes=str(SIZE))
        yield made


@pytest.mark.parametrize("shape", ["fields", "headers"])
def test_others_are_served_while_a_sender_sends_it(installation: Installation, shape: str) -> None:
    usual_s = cost_s(installation, ASKS + b',"other":"' + b"x" * SIZE + b'"}')
    to, due_ms = installation.topic(), now_ms() + 1_000
    for number in range(100):
        installation.requests.schedule(f"{shape}-{number}", due_ms + 100 * number, to)
    installation.requests.flush()

    expensive_s = cost_s(installation, expensive(shape))

    assert expensive_s < 3 * usual_s + TIMES * 0.25
    delivered = installation.wait_for(to, 100, 60)
    assert max(map(late_ms, delivered)) < ON_TIME_MS


def cost_s(installation: Installation, value: bytes) -> float:
    """Send a value some times; return the seconds of a core that the worker took until it had refused all."""
    batch, letters = PackedBatch(bytes(zstd_encode(record_of(0, value))), 1, 4), f"{installation.app_id}-dead-letters"
    before_s, count = cpu_s(installation.worker.pid), len(list(read(installation.bootstrap, letters)))
    for _ in range(TIMES):
        asyncio.run(send_batches(installation.bootstrap, f"{installation.app_id}-json", 1, batch))
    installation.letters(count + TIMES)
    return cpu_s(installation.worker.pid) - before_s


def cpu_s(pid: int) -> float:
    """Return the seconds of a core that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
