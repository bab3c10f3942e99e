"""Several clusters, each with its own security: messages refused by a cluster wait alone, and no secret leaks."""

import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path

from app.ops.doctor.acl import Acl
from tests.harness.guarded import Guarded
from tests.harness.kafka import Requests, create_topic, now_ms, read
from tests.harness.waiting import LIMIT_S, eventually
from tests.harness.worker import Worker
from tests.integration.installation import PARTITIONS, Installation, late_ms, new_app_id, topics_removed, wait_for
from tests.integration.test_doctor import doctor, found

WRONG = "canary-wrong-5be1"
FILE = """
[clusters.safe]
bootstrap_servers = "{safe}"
security_protocol = "SASL_SSL"
sasl_mechanism = "SCRAM-SHA-512"
sasl_username = "worker"
sasl_password_file = "{place}/password"
ssl_cafile = "{place}/ca.pem"
rate = "1000/s"

[clusters.token]
bootstrap_servers = "{plain}"
security_protocol = "SASL_PLAINTEXT"
sasl_mechanism = "OAUTHBEARER"
sasl_oauthbearer_token_endpoint_url = "{endpoint}"
sasl_oauthbearer_client_id = "worker"
sasl_oauthbearer_client_secret_env = "TOKEN_SECRET"

[clusters.refused]
bootstrap_servers = "{plain}"
security_protocol = "SASL_PLAINTEXT"
sasl_mechanism = "PLAIN"
sasl_username = "worker"
sasl_password_file = "{wrong}"

[clusters.gone]
bootstrap_servers = "127.0.0.1:1"
security_protocol = "SSL"
"""
PATHS = (
    *("/", "/find", "/dead-letters", "/workers", "/jobs", "/audit", "/nowhere", "/health/ready", "/metrics"),
    *(f"/api/v1/{each}" for each in ("overview", "partitions", "destinations", "messages", "timeline", "history")),
    *(f"/api/v1/{each}" for each in ("findings", "dead-letters", "jobs", "audit")),
)


def _answers(url: str, paths: Iterable[str] = PATHS) -> str:
    """Return a worker's answers to all paths."""
    said = ""
    for path in paths:
        try:
            with urllib.request.urlopen(f"{url}{path}", timeout=LIMIT_S) as answer:  # noqa: S310 - our own worker
                said += answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                said += error.read().decode()
    return said


def test_each_cluster_has_its_own_login_and_no_secret_is_printed(
    guarded: Guarded, bootstrap: str, tmp_path: Path
) -> None:
    app_id, wrong = new_app_id("many"), tmp_path / "wrong"
    there, here_to = (
        create_topic(guarded.broker.bootstrap, f"{app_id}-there"),
        create_topic(bootstrap, f"{app_id}-here"),
    )
    guarded.grant("worker", [Acl("topic", there, "literal", ("Write",))])
    wrong.write_text(WRONG, "utf-8")
    said = {"safe": guarded.outside("SASL_SSL"), "plain": guarded.outside("SASL_PLAINTEXT")}
    file = tmp_path / "clusters.toml"
    file.write_text(FILE.format(**said, place=guarded.place, endpoint=guarded.endpoint.url, wrong=wrong), "utf-8")
    env = {"DELAY_CLUSTERS": str(file), "TOKEN_SECRET": guarded.password, "DELAY_DESTINATIONS": f"{there},{here_to}"}
    clusters = ("safe", "token", "refused", "gone")
    with (
        topics_removed(bootstrap, app_id),
        Worker(bootstrap, app_id, tmp_path / app_id, partitions=PARTITIONS, env=env, level="debug") as worker,
    ):
        worker.start().wait_ready()
        here = Installation(bootstrap, app_id, worker, Requests(bootstrap, app_id))
        due = now_ms() + 500
        for cluster in (None, *clusters):
            for number in range(5):
                to = here_to if cluster is None else there
                headers = {"delay-to": to, "delay-at": str(due), "delay-id": f"{cluster}-{number}"}
                here.requests.send(
                    headers | ({"delay-to-cluster": cluster} if cluster else {}), b"k", b"v", partition=1
                )
        here.requests.flush()
        for servers, to, count in ((bootstrap, here_to, 5), (guarded.broker.bootstrap, there, 10)):
            records = wait_for(servers, to, count)
            assert max(map(late_ms, records)) < 5_000
        ids = {record.header("delay-id") for record in read(guarded.broker.bootstrap, there)}
        assert ids == {f"{cluster}-{number}" for cluster in ("safe", "token") for number in range(5)}
        held = ("/api/v1/destinations",)
        eventually(lambda: f"{there}@refused" in _answers(worker.url, held), what="a log line about the held messages")
        told = doctor(bootstrap, app_id, "--format", "json", **env)
        mistakes = {one["subject"]: one["sentence"] for one in found(told, "error")}
        assert mistakes.keys() == {"refused", "gone"}
        assert "Invalid username or password" in mistakes["refused"]
        assert {one["subject"] for one in found(told, "ok")} >= {"broker 1", str(guarded.place / "ca.pem")}

        wrong.write_text(guarded.password, "utf-8")  # and it is let in, without a restart
        wait_for(guarded.broker.bootstrap, there, 15, 30)
        said_all = worker.log + _answers(worker.url) + told.stdout + told.stderr
        assert "SaslAuthenticateRequest_v1(not shown)" in worker.log
        worker.stop()
        assert not [secret for secret in (guarded.password, WRONG, *guarded.endpoint.tokens) if secret in said_all]


def test_without_the_right_to_read_its_topics_settings_a_worker_says_so(guarded: Guarded, tmp_path: Path) -> None:
    app_id = new_app_id("blind")
    guarded.grant("worker", [Acl("topic", f"{app_id}-", "prefixed", ("Create", "Read", "Write"))])
    env = guarded.env("SASL_PLAINTEXT")
    with Worker(guarded.outside("SASL_PLAINTEXT"), app_id, tmp_path / app_id, partitions=2, env=env) as worker:
        assert worker.start().wait_dead() == 1
        assert f"has no permission to read the group {app_id}. Grant READ on the group" in worker.log
        guarded.grant("worker", [Acl("group", app_id, "literal", ("Read",))])
        assert worker.start().wait_dead() == 1
        assert "Grant DESCRIBE_CONFIGS on it to its principal" in worker.log
        assert "Traceback" not in worker.log


def test_a_worker_that_is_not_let_in_says_why(guarded: Guarded, tmp_path: Path) -> None:
    app_id, wrong = new_app_id("stranger"), tmp_path / "wrong"
    wrong.write_text(WRONG, "utf-8")
    plain = guarded.env("SASL_PLAINTEXT") | {"KAFKA_SASL_PASSWORD_FILE": str(wrong)}
    token = guarded.env("SASL_SSL", "OAUTHBEARER") | {"KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET_FILE": str(wrong)}
    for listener, env, says in (
        ("SASL_PLAINTEXT", plain, "Invalid username or password"),
        ("SASL_SSL", token, "returned 401 invalid_client. Check the client, its secret and its scope"),
    ):
        with Worker(guarded.outside(listener), app_id, tmp_path / app_id, partitions=2, env=env) as worker:
            assert worker.start().wait_dead() == 1
            assert says in worker.log
            assert "Traceback" not in worker.log
            assert WRONG not in worker.log
