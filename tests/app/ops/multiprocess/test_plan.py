"""What each process of a worker gets of the environment."""

from pathlib import Path

import pytest

from app.base.errors import SettingInvalid
from app.ops.multiprocess.option import without_option
from app.ops.multiprocess.plan import plan
from app.settings.settings import Settings
from app.settings.values import cores, processes


def planned(count: int, **env: str) -> list[dict[str, str]]:
    return [process.env for process in plan(count, Settings.from_env(env), env)]


def test_ports_data_and_addresses_follow_from_those_of_one() -> None:
    one, two = planned(2, PORT="7000", DATADIR="/data", WORKER_URL="https://w.example:7000/p", DELAY_PROCESSES="2")

    assert (one["PORT"], two["PORT"]) == ("7011", "7012")
    assert (one["DATADIR"], two["DATADIR"]) == ("/data/process-1", "/data/process-2")
    assert (one["WORKER_URL"], two["WORKER_URL"]) == ("https://w.example:7011/p", "https://w.example:7012/p")
    assert one["DELAY_PROCESSES"] == two["DELAY_PROCESSES"] == "1"


def test_data_directories_that_follow_from_ports_differ_by_themselves() -> None:
    assert all("DATADIR" not in env and "WORKER_URL" not in env for env in planned(2))


def test_people_sign_in_at_the_address_of_all() -> None:
    assert {env["DELAY_WEB_URL"] for env in planned(2, PORT="7000")} == {"http://127.0.0.1:7000"}
    assert {env["DELAY_WEB_URL"] for env in planned(2, DELAY_WEB_URL="https://a.example")} == {"https://a.example"}


@pytest.mark.parametrize(
    ("host", "asked"),
    [
        ("127.0.0.1", "http://127.0.0.1:6077"),
        ("::", "http://[::1]:6077"),
        ("0.0.0.0", "http://127.0.0.1:6077"),  # noqa: S104 - a value like another
        ("10.0.0.7", "http://10.0.0.7:6077"),
        ("::1", "http://[::1]:6077"),
    ],
)
def test_a_process_is_asked_where_it_listens(host: str, asked: str) -> None:
    (process,) = plan(1, Settings.from_env({"HOST": host}), {})

    assert process.url == asked


def test_more_processes_than_partitions_are_refused() -> None:
    with pytest.raises(SettingInvalid, match="DELAY_PROCESSES=3: there are only 2 partitions"):
        planned(3, DELAY_PARTITIONS="2")


def test_a_port_without_room_above_it_is_refused() -> None:
    with pytest.raises(SettingInvalid, match="PORT=65530: with 2 processes, the maximum is 65523"):
        planned(2, PORT="65530")


@pytest.mark.parametrize("text", ["0", "101", "-1", "two", "1.5", "\u0661"])
def test_an_invalid_number_of_processes_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="it must be a whole number from 1 to 100"):
        processes(text)


def test_auto_is_no_more_than_a_control_group_allows(tmp_path: Path) -> None:
    quota = tmp_path / "cpu.max"
    quota.write_text("50000 100000\n", "utf-8")
    assert cores(quota) == 1
    quota.write_text("max 100000\n", "utf-8")
    assert cores(quota) == cores(tmp_path / "none") == processes("auto") >= 1


def test_the_option_goes_and_all_else_stays() -> None:
    for given in (["--processes", "2"], ["--processes=auto"]):
        assert without_option(["-A", "app", "worker", *given, "-l", "info"]) == ["-A", "app", "worker", "-l", "info"]
