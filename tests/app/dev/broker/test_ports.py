"""Ports for servers are none that the kernel gives to connections."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.dev.broker import ports
from tests.harness import ports as of_tests
from tests.harness.waiting import PROGRAM_S
from tests.harness.worker import ROOT


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("32768\t60999\n", range(10_000, 32_768)),
        ("10000 40000\n", range(40_001, 65_536)),
        ("1024 65535\n", range(10_000, 65_536)),
        ("", range(10_000, 32_768)),
    ],
)
def test_servers_get_what_connections_do_not(
    said: str, expected: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ip_local_port_range"
    if said:
        file.write_text(said, "utf-8")
    monkeypatch.setattr("app.dev.broker.ports._OF_CONNECTIONS", file)

    assert ports.server_ports() == expected
    assert ports.free_port() in expected


def test_those_after_it_are_free_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.dev.broker.ports.is_free", lambda port: port % 7 != 0)

    assert {ports.free_port(6) % 7 for _ in range(20)} == {1}


@pytest.mark.core
def test_a_port_of_a_file_of_another_suite_is_given_to_no_other_until_that_file_ends(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = of_tests.free_port(), of_tests.free_port()
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # suites that run now have other locks
    locks = os.open(tmp_path / f"punctual-test-ports-{os.getuid()}", os.O_RDWR | os.O_CREAT)
    monkeypatch.setattr(of_tests, "_locks", lambda: locks)
    monkeypatch.setattr(of_tests, "_taken", [])
    program = (
        "from tests.harness import ports; "
        f"ports._NEXT = iter([{first}]); print(ports.free_port(), flush=True); input(); "
        "ports.give_back(); print('given back', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == f"{first}\n"
        monkeypatch.setattr(of_tests, "_NEXT", iter([first, second]))
        assert of_tests.free_port() == second
        other.stdin.write("\n")
        other.stdin.flush()
        assert other.stdout.readline() == "given back\n"
        monkeypatch.setattr(of_tests, "_NEXT", iter([first, second]))
        assert of_tests.free_port() == first
        other.communicate("\n", timeout=PROGRAM_S)
    os.close(locks)
