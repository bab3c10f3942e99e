"""docs/how-to/outbox.md works: aborted messages were never scheduled, and committed messages are delivered."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.how_to import blocks
from tests.harness.kafka import read
from tests.harness.program import Program
from tests.harness.waiting import PROGRAM_S, eventually
from tests.integration.conftest import Run
from tests.integration.installation import Installation

_INVOICING, _RELAY = [code for language, code in blocks("outbox.md") if language == "python"]


@pytest.fixture(scope="module")
def installation(run: Run) -> Iterator[Installation]:
    with run("outbox") as made:
        yield made


def save(program: str, installation: Installation, directory: Path, **names: str) -> Path:
    """Save a program with the names of a test in place of its own; return its file."""
    changes = {"127.0.0.1:9092": installation.bootstrap, "delay-requests": f"{installation.app_id}-requests", **names}
    for name, instead in changes.items():
        assert f'"{name}"' in program, f"the program has no {name}"
        program = program.replace(f'"{name}"', f'"{instead}"')
    file = directory / "program.py"
    file.write_text(program, "utf-8")
    return file


def test_requests_of_an_aborted_transaction_are_never_seen(installation: Installation, tmp_path: Path) -> None:
    orders, invoices, reminders = (installation.topic() for _ in range(3))
    program = _INVOICING.replace('b"reminders"', f'b"{reminders}"').replace("P14D", "PT1S")
    names = {"orders": orders, "invoices": invoices, "invoicing-1": f"{orders}-1", "invoicing": f"{orders}-group"}
    file = save(program, installation, tmp_path, **names)
    for key, value in ((b"1", b"a lamp"), (b"2", b"no address")):
        installation.requests.send([], key, value, topic=orders)
    installation.requests.flush()

    with Program(tmp_path / "log", str(file)) as running:
        eventually(lambda: not running.alive, what="the end of a program whose order cannot be stored")
        assert "an order without an address" in running.log

    [reminder] = installation.wait_for(reminders, 1)
    assert (reminder.key, reminder.value) == (b"1", b"not paid yet?")
    assert [(record.key, record.value) for record in read(installation.bootstrap, invoices)] == [
        (b"1", b"to pay: a lamp")
    ]
    installation.requests.schedule("reminder-2", 0, reminders, b"later", key=b"2")
    installation.requests.flush()
    assert [record.value for record in installation.wait_for(reminders, 2)] == [b"not paid yet?", b"later"]
    installation.await_event("delivered", "reminder-2")
    assert [event["event"] for event in installation.events("reminder-2")] == ["accepted", "delivered"]


def test_the_row_of_an_order_is_delivered_once_though_it_is_sent_twice(
    installation: Installation, tmp_path: Path
) -> None:
    reminders = installation.topic()
    file = save(_RELAY, installation, tmp_path, reminders=reminders)
    file.write_text(file.read_text("utf-8").replace("3_000", "500"), "utf-8")
    assert "remind_after_ms=500" in file.read_text("utf-8")
    assert run_program(file) == "1 sent\n"
    [delivery] = installation.wait_for(reminders, 1)
    assert (delivery.key, delivery.value) == (b"1", b"a lamp: not paid yet?")

    with sqlite3.connect(tmp_path / "shop.db") as shop:
        assert shop.execute("SELECT count(*) FROM outbox").fetchone() == (0,)
        assert shop.execute("SELECT item FROM orders").fetchall() == [("a lamp",)]
        asked = {event["event"]: event for event in installation.events("reminder-1")}["accepted"]
        again = ("reminder-1", reminders, "1", "a lamp: not paid yet?", asked["due"], asked["due"] - 500)
        columns = "id, topic, key, value, due_ms, asked_at_ms"
        shop.execute(f"INSERT INTO outbox ({columns}) VALUES (?, ?, ?, ?, ?, ?)", again)  # noqa: S608 - names of ours
    file.write_text(file.read_text("utf-8").replace("order(1,", "0 and order(1,"), "utf-8")
    assert run_program(file) == "1 sent\n"
    installation.await_event("duplicate", "reminder-1")
    assert len(installation.wait_for(reminders, 1)) == 1


def run_program(file: Path) -> str:
    command = [sys.executable, str(file)]
    return subprocess.run(
        command, cwd=file.parent, check=True, timeout=PROGRAM_S, capture_output=True, text=True
    ).stdout
