"""An encrypted value on a real broker: nowhere in clear between producer and consumer."""

import asyncio
import subprocess
import sys
import urllib.error
import urllib.request
from datetime import timedelta
from pathlib import Path

import pytest

from punctual import DelayClient, SyncDelayClient
from punctual.encryption import Keyring, TamperedError, new_key
from tests.docs.how_to import blocks
from tests.harness.account import Account
from tests.harness.kafka import read
from tests.harness.waiting import LIMIT_S, PROGRAM_S, eventually
from tests.harness.worker import ROOT
from tests.integration.installation import Installation

pytestmark = pytest.mark.core

SECRET, OPEN = b"4111-secret-4111", b"4111-open-4111"
RING = Keyring({"2026-11": new_key()})
TOPICS = ("requests", "forwards", "delays-changelog", "events", "dead-letters", "progress")


async def test_an_encrypted_value_is_nowhere_in_clear(installation: Installation) -> None:
    to, missing, app_id = installation.topic(), f"{installation.app_id}-nowhere", installation.app_id
    async with DelayClient(installation.bootstrap, app_id=app_id, encryption=RING) as client:
        waits = await client.delay(to, SECRET, after=timedelta(hours=1), key="customer-4", id="waits")
        await client.delay(to, SECRET, after=timedelta(milliseconds=1), key="customer-4", id="comes")
        await client.delay(missing, SECRET, after=timedelta(hours=1), id="dies")
    with SyncDelayClient(installation.bootstrap, app_id=app_id) as plain:
        plain.delay(to, OPEN, after=timedelta(hours=1), id="open")  # unencrypted payloads can be found
    installation.await_event("accepted", "waits", "open")

    [record] = installation.wait_for(to, 1)
    assert RING.decrypt(record) == SECRET
    [letter] = installation.letters_for(1, missing)
    assert RING.decrypt(letter, to=missing) == SECRET
    with pytest.raises(TamperedError):
        RING.decrypt(letter, to=to)

    Account.settled(installation.bootstrap, app_id, pending=2)  # the rejected message is in no row any more
    installation.worker.kill()  # its data directory is as a thief finds it
    found = _everything(installation, to)
    assert OPEN in found
    assert SECRET not in found
    installation.worker.start().wait_ready()
    shown = await asyncio.to_thread(_page, f"{installation.worker.url}/messages/{waits}", b"encrypted with the key")
    assert b"encrypted with the key 2026-11" in shown
    assert SECRET not in shown


def _page(url: str, part: bytes) -> bytes:
    """Return a page when it has a part: a worker that has just started cannot find messages at once."""
    found = [b""]

    def has_it() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=LIMIT_S) as page:  # noqa: S310 - ours
                found[0] = page.read()
        except urllib.error.HTTPError as error:
            error.close()
        return part in found[0]

    eventually(has_it, what=f"{part!r} on {url}")
    return found[0]


def _everything(installation: Installation, to: str) -> bytes:
    """Return all bytes that Kafka and the data directory have of an installation."""
    topics = [to, *(f"{installation.app_id}-{name}" for name in TOPICS)]
    records = [record for topic in topics for record in read(installation.bootstrap, topic)]
    parts = [part for record in records for part in (record.key, record.value, *(value for _, value in record.headers))]
    files = [path.read_bytes() for path in installation.worker.data.rglob("*") if path.is_file()]
    return b"\n".join([*(part for part in parts if part), *files])


def test_the_examples_of_the_page_run(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, to = blocks("encrypt.md"), installation.topic()
    [keys] = [text for kind, text in code if kind == "sh"]
    said = subprocess.run(["bash", "-ec", f"{keys}\nenv"], capture_output=True, text=True, check=True)  # noqa: S607 - as a reader does
    [line] = [line for line in said.stdout.splitlines() if line.startswith("REMINDER_KEYS=")]
    monkeypatch.setenv("REMINDER_KEYS", line.partition("=")[2])
    [program] = [text for kind, text in code if kind == "python"]
    client = f'DelayClient("{installation.bootstrap}", app_id="{installation.app_id}"'
    program = program.replace('DelayClient("127.0.0.1:9092"', client).replace('"reminders"', f'"{to}"')
    (tmp_path / "program.py").write_text(program.replace("127.0.0.1:9092", installation.bootstrap), "utf-8")
    command = [sys.executable, str(tmp_path / "program.py")]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=PROGRAM_S)
    assert said.stdout == """b'{"card":"4111-1111"}'\n"""
    [record] = installation.wait_for(to, 1)
    assert b"4111-1111" not in (record.value or b"")
