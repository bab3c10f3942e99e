"""Kafka's jars: exactly the pinned ones, or a sentence."""

import hashlib
import os
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.dev.broker import JarsUnavailableError, jars


def jar(directory: Path, name: str, content: bytes) -> tuple[Path, str]:
    path = directory / name
    path.write_bytes(content)
    return path, hashlib.sha256(content).hexdigest()


def test_the_pinned_jars_pass(tmp_path: Path) -> None:
    path, digest = jar(tmp_path, "a.jar", b"a")
    jars.verify([path], {"a.jar": digest})


def test_another_content_is_refused_by_name(tmp_path: Path) -> None:
    path, _ = jar(tmp_path, "a.jar", b"a")
    with pytest.raises(JarsUnavailableError, match=r"a\.jar does not match its checksum.*Delete"):
        jars.verify([path], {"a.jar": "0" * 64})


def test_a_jar_without_a_pinned_hash_is_refused(tmp_path: Path) -> None:
    path, digest = jar(tmp_path, "a.jar", b"a")
    more, _ = jar(tmp_path, "b.jar", b"b")
    with pytest.raises(JarsUnavailableError, match=r"b\.jar does not match its checksum"):
        jars.verify([path, more], {"a.jar": digest})


def test_a_missing_jar_is_named(tmp_path: Path) -> None:
    path, digest = jar(tmp_path, "a.jar", b"a")
    with pytest.raises(JarsUnavailableError, match=r"b\.jar was not resolved"):
        jars.verify([path], {"a.jar": digest, "b.jar": digest})


@pytest.mark.parametrize("version", jars.versions())
def test_the_sums_pin_kafka_itself_and_its_log_binding(version: str) -> None:
    sums = jars.read_sums(version)
    assert f"kafka_2.13-{version}.jar" in sums
    assert f"kafka-clients-{version}.jar" in sums
    assert f"{jars.LOG_BINDING}-{jars.LOG_BINDING_VERSION}.jar" in sums
    assert all(len(digest) == 64 for digest in sums.values())


def test_versions_are_sorted_and_include_the_default() -> None:
    assert jars.versions()[0] == "3.6.2"
    assert jars.DEFAULT_VERSION in jars.versions()


def test_the_environment_chooses_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_VERSION", "")
    assert jars.kafka_version() == jars.DEFAULT_VERSION
    monkeypatch.setenv("KAFKA_VERSION", "3.9.2")
    assert jars.kafka_version() == "3.9.2"
    monkeypatch.setenv("KAFKA_VERSION", "2.8.0")
    with pytest.raises(JarsUnavailableError, match=r"'2\.8\.0'\. Set it to one of 3\.6\.2, 3\.9\.2, "):
        jars.kafka_jars()


def test_without_a_connection_the_message_says_what_else_can_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(_endpoint: str) -> None:
        raise ConnectionError("connection refused\nand a long trace")

    monkeypatch.setitem(sys.modules, "jgo", SimpleNamespace(build=offline))
    with pytest.raises(JarsUnavailableError, match=r"connection refused\. Connect.*KAFKA_BOOTSTRAP_SERVERS"):
        jars.kafka_jars()


def test_without_the_extra_the_message_says_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jgo", None)

    with pytest.raises(
        JarsUnavailableError, match=r"extra `dev`.*make install.*pip install .*punctual-kafka-worker\[dev\]"
    ):
        jars.kafka_jars()


def test_a_user_waits_for_no_file_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "getuid", lambda: 1_001)
    with jars.one_at_a_time():
        monkeypatch.setattr(os, "getuid", lambda: 1_002)
        with jars.one_at_a_time():
            assert len(list(tmp_path.iterdir())) == 2
