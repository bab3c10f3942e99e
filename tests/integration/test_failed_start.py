"""A failed start writes its cause in one sentence to stderr, and exits with code 1; a doubtful one logs warnings."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.foreign_settings import HOSTILE
from tests.harness.pace import Stopwatch
from tests.harness.ports import free_port
from tests.harness.waiting import LIMIT_S, PROGRAM_S, eventually
from tests.harness.worker import ROOT, Worker
from tests.integration.installation import new_app_id, topics_removed

COMMAND = [sys.executable, "-m", "faust", "-A", "app"]


def environment(bootstrap: str, directory: Path, **env: str) -> dict[str, str]:
    """Return a worker's environment, with a data directory whose parent does not exist either."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DELAY_", "HOOK_"))}
    told = {
        "KAFKA_BOOTSTRAP_SERVERS": bootstrap,
        "DELAY_DESTINATIONS": "*",
        "DELAY_REPLICATION_FACTOR": "1",
        "DELAY_PARTITIONS": "4",
        "DATADIR": str(directory / "not" / "there" / "data"),
        "PORT": str(free_port()),
        "PYTHONPATH": str(ROOT),
    }
    return {**kept, **told, **env}


def listening(port: int) -> set[str]:
    """Return the IPv4 addresses on which something listens at a port, as the kernel writes them."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text("utf-8").splitlines()[1:]]
    places = [row[1].split(":") for row in rows if row[3] == "0A"]
    return {address for address, number in places if int(number, 16) == port}


def last_words(env: dict[str, str], *arguments: str) -> str:
    """Start a worker that cannot start, and return its stderr."""
    command = [*COMMAND, "worker", "-l", "warn", *arguments]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PROGRAM_S, check=False)
    assert ended.returncode == 1, ended.stderr
    return ended.stderr.strip()


def test_a_port_that_is_taken_is_one_sentence(bootstrap: str, tmp_path: Path) -> None:
    app_id = new_app_id("start")
    with topics_removed(bootstrap, app_id), socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        [words] = last_words(environment(bootstrap, tmp_path, DELAY_APP_ID=app_id, PORT=port)).splitlines()

    assert f"127.0.0.1:{port}: Address already in use" in words
    assert "Set PORT to a free port" in words


@pytest.mark.parametrize("where", ["{tmp}/file/data", "/proc/none/data", "/proc/1"])
def test_a_data_directory_that_cannot_be_written_is_one_sentence(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").touch()
    directory = where.format(tmp=tmp_path)
    [words] = last_words(environment("127.0.0.1:1", tmp_path, DATADIR=directory)).splitlines()

    assert f"the data directory {directory} cannot be used" in words
    assert "DATADIR" in words


def test_a_cluster_that_does_not_answer_is_one_sentence(tmp_path: Path) -> None:
    [words] = last_words(environment(f"127.0.0.1:{free_port()}", tmp_path)).splitlines()

    assert "KAFKA_BOOTSTRAP_SERVERS" in words


def test_the_sentence_is_on_stderr_also_when_the_log_goes_to_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    log = tmp_path / "worker.log"
    env = environment("127.0.0.1:1", tmp_path, DATADIR=str(tmp_path / "file" / "data"))
    [words] = last_words(env, "-f", str(log)).splitlines()

    assert words.startswith("punctual: the data directory")
    assert words in log.read_text("utf-8")


def test_a_start_that_is_interrupted_ends_in_good_order(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        deaf.settimeout(LIMIT_S)
        env = environment(f"127.0.0.1:{deaf.getsockname()[1]}", tmp_path)
        worker = subprocess.Popen([*COMMAND, "worker", "-l", "info"], env=env, stderr=subprocess.PIPE, text=True)
        try:
            asking, _ = deaf.accept()  # it waits for an answer from now on
            worker.send_signal(signal.SIGTERM)
            with Stopwatch() as watch:
                _, said = worker.communicate(timeout=PROGRAM_S)
            asking.close()
        finally:
            worker.kill()

    assert worker.returncode == 0, said
    assert "Traceback" not in said
    assert watch.seconds < 15


def test_a_start_is_a_banner_and_a_line_at_readiness(bootstrap: str, tmp_path: Path) -> None:
    app_id = new_app_id("start")
    with (
        topics_removed(bootstrap, app_id),
        Worker(bootstrap, app_id, tmp_path / "not" / "there" / "data", env=HOSTILE) as worker,
    ):
        worker._log = tmp_path / "worker.log"  # the harness would make the parents
        worker.start().wait_ready()
        assert listening(worker.port) == {"0100007F"}, "others than this machine reach it"
        serving = f"serving 4 of 4 partitions, delivering to *, {worker.url}"
        eventually(lambda: serving in worker.log, what="a word about readiness")
        worker.stop()
        worker.start().wait_ready()  # the topics are there now
        eventually(lambda: serving in worker.log, what="a word about readiness")
        said = worker.log.splitlines()

    banner, log = (list(filter(lambda line: line.startswith("[") == logged, said)) for logged in (False, True))
    assert banner[0].startswith("Punctual ")
    assert any(re.fullmatch(rf"  data +{worker.data}", line) for line in banner)
    assert not [line for line in said if "memory" in line]
    assert len(log) <= 3, said  # the assignment, readiness, and possibly a wait for a broker


def test_likely_mistakes_cause_warnings(bootstrap: str, tmp_path: Path) -> None:
    app_id, typo = new_app_id("start"), {"DELAY_DESTINATION": "orders", "DELAY_DESTINATIONS": ""}
    with topics_removed(bootstrap, app_id), Worker(bootstrap, app_id, tmp_path / "data", env=typo) as worker:
        worker.start().wait_ready()
        warnings = [line for line in worker.log.splitlines() if "WARNING" in line]

    assert "did you mean DELAY_DESTINATIONS?" in warnings[0]
    assert "DELAY_DESTINATIONS is not set, so every request becomes a dead letter" in warnings[1]


def test_workers_whose_settings_differ_warn_of_each_other(bootstrap: str, tmp_path: Path) -> None:
    app_id = new_app_id("start")
    one, other = (
        Worker(bootstrap, app_id, tmp_path / name, env={"DELAY_DEDUPE_WINDOW": days})
        for name, days in (("a", "P9D"), ("b", "P8D"))
    )
    with topics_removed(bootstrap, app_id), one, other:
        one.start().wait_ready()
        other.start().wait_ready()
        for worker, neighbour in ((one, other), (other, one)):
            said = f"the worker at {neighbour.url} has different values of the settings DELAY_DEDUPE_WINDOW."
            eventually(lambda: said in worker.log, what="a warning")  # noqa: B023 - it is over before the next one


def test_a_console_that_others_can_reach_without_a_login_is_refused(tmp_path: Path) -> None:
    [words] = last_words(environment("127.0.0.1:1", tmp_path, HOST="0.0.0.0")).splitlines()  # noqa: S104 - refused

    assert "could use this port without a login" in words
    assert "DELAY_WEB_USERS_FILE" in words


def test_users_that_cannot_be_read_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "users").write_text("ann:admin:secret\n", "utf-8")
    [words] = last_words(
        environment("127.0.0.1:1", tmp_path, DELAY_WEB_USERS_FILE=str(tmp_path / "users"))
    ).splitlines()

    assert "DELAY_WEB_USERS_FILE" in words
    assert "line 1" in words
    assert "secret" not in words
