"""The doctor on a real broker: a healthy installation has no error, and each thing that is wrong is found."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.harness.waiting import PROGRAM_S, ask_until, eventually
from tests.harness.worker import GUARANTEE, ROOT, Worker
from tests.integration.installation import PARTITIONS, Installation
from tests.integration.test_actions import get

Finding = dict[str, str]


def doctor(bootstrap: str, app_id: str, *options: str, **env: str) -> "subprocess.CompletedProcess[str]":
    """Run the command with an installation's settings."""
    aside = ("DELAY_", "KAFKA_")
    settings = {
        **{name: value for name, value in os.environ.items() if not name.startswith(aside)},
        "KAFKA_BOOTSTRAP_SERVERS": bootstrap,
        "DELAY_APP_ID": app_id,
        "DELAY_PARTITIONS": str(PARTITIONS),
        "DELAY_REPLICATION_FACTOR": "1",
        "DELAY_DESTINATIONS": "*",
        "DELAY_GUARANTEE": GUARANTEE,
        "PYTHONPATH": str(ROOT),
        **env,
    }
    command = [sys.executable, "-m", "faust", "-A", "app", "doctor", *options]
    return subprocess.run(command, env=settings, capture_output=True, text=True, timeout=PROGRAM_S, check=False)


def found(said: "subprocess.CompletedProcess[str]", *levels: str) -> list[Finding]:
    findings: list[Finding] = json.loads(said.stdout)["findings"]
    return [one for one in findings if one["level"] in levels]


def test_a_healthy_installation_has_no_error(installation: Installation, tmp_path: Path) -> None:
    wanted = {
        ("topics", f"{installation.app_id}-delays-changelog"),
        ("clock", installation.worker.url),
        ("workers", installation.app_id),
    }
    said = ask_until(  # what workers report is read, and they report each second
        lambda: doctor(installation.bootstrap, installation.app_id, "--format", "json", DATADIR=str(tmp_path)),
        lambda said: wanted <= {(one["check"], one["subject"]) for one in found(said, "ok")},
        "what is well",
        lambda said: said.stdout,
    )

    assert (said.returncode, found(said, "error")) == (0, [])
    assert list(tmp_path.iterdir()) == []  # the doctor writes no files


def test_each_thing_that_is_wrong_is_found_in_one_run(installation: Installation, tmp_path: Path) -> None:
    missing, small = f"{installation.app_id}-never-made", installation.topic(max_message_bytes="1000")
    installation.alter(f"{installation.app_id}-delays-changelog", cleanup_policy="delete")
    try:
        env = {"DELAY_DESTINATIONS": f"{missing},{small}", "DELAY_PARTITIONS": "8", "DATADIR": str(tmp_path)}
        said = doctor(installation.bootstrap, installation.app_id, "--format", "json", **env)
    finally:
        installation.alter(f"{installation.app_id}-delays-changelog", cleanup_policy="compact")

    assert said.returncode == 1
    errors = {one["subject"]: one["sentence"] for one in found(said, "error") if "cleanup.policy" in one["sentence"]}
    assert "Set cleanup.policy=compact" in errors[f"{installation.app_id}-delays-changelog"]
    few = [one for one in found(said, "error") if "has 4 partitions" in one["sentence"]]
    assert f"{installation.app_id}-requests" in {one["subject"] for one in few}
    warned = {one["subject"]: one["sentence"] for one in found(said, "warning")}
    assert "does not exist" in warned[missing]
    assert "accepts messages of up to 1000 bytes" in warned[small]
    assert "DELAY_DESTINATIONS, DELAY_PARTITIONS" in warned["this environment"]


def test_a_running_worker_tells_the_same(installation: Installation) -> None:
    clock = ("clock", installation.worker.url)
    status, answer = ask_until(
        lambda: get(installation, "/findings"),
        lambda said: clock in {(one["check"], one["subject"]) for one in said[1].get("findings", [])},
        "a word about the worker's clock",
    )
    assert (status, answer["reached"]) == (200, True)
    assert [one for one in answer["findings"] if one["level"] == "error"] == []
    assert get(installation, "/findings?wait=0") == (200, answer)


def test_workers_that_have_other_settings_are_found(installation: Installation, tmp_path: Path) -> None:
    env = {**installation.worker.env, "DELAY_DEDUPE_WINDOW": "P7D"}
    with Worker(installation.bootstrap, installation.app_id, tmp_path / "other", env=env) as other:
        other.start().wait_ready()

        def named() -> bool:
            said = doctor(installation.bootstrap, installation.app_id, "--format", "json", DATADIR=str(tmp_path))
            wrong = [one["sentence"] for one in found(said, "warning", "error") if one["check"] == "workers"]
            return any("DELAY_DEDUPE_WINDOW" in sentence for sentence in wrong)

        eventually(named, what="the difference")


def test_a_cluster_that_is_away_has_an_exit_code_of_its_own(tmp_path: Path) -> None:
    said = doctor("127.0.0.1:1", "nobody", "--format", "json", DATADIR=str(tmp_path))
    assert said.returncode == 3
    assert "127.0.0.1:1" in said.stdout
