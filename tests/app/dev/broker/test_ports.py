"""Ports for servers are none that the kernel gives to connections."""

from pathlib import Path

import pytest

from app.dev.broker import ports
from tests.harness import ports as of_tests


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


def test_processes_of_suites_have_different_ports() -> None:
    blocks = [of_tests._blocks() for _ in range(3)]
    given = [{next(block) for _ in range(100)} for block in blocks]

    assert all(len(each) > 30 for each in given)
    assert len(set.union(*given)) == sum(map(len, given))
    assert len({port % of_tests.ROOM for port in set.union(*given)}) == 1


def test_ports_are_given_although_all_shares_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_tests, "_lock", lambda _share: False)

    assert next(of_tests._blocks()) in ports.server_ports()
