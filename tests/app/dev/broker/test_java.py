"""Finding a Java."""

from pathlib import Path

import pytest

from app.dev.broker import JavaMissingError, java


def fake_java(directory: Path, version: str) -> Path:
    path = directory / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n", "utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("KAFKA_JAVA", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


@pytest.mark.parametrize(("version", "feature"), [("17.0.15", 17), ("21", 21), ("1.8.0_392", 8), ("gibberish", 0)])
def test_the_version_is_read_in_its_old_and_new_form(tmp_path: Path, version: str, feature: int) -> None:
    assert java.java_version(fake_java(tmp_path, version)) == feature


def test_something_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert java.java_version(tmp_path / "missing") == 0


@pytest.mark.usefixtures("nothing_installed")
def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = fake_java(tmp_path, "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java.find_java() == installed


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.slow
@pytest.mark.core
def test_the_bundled_one_serves_where_the_installed_one_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path, "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java.find_java() == java.bundled_java()


@pytest.mark.usefixtures("nothing_installed")
def test_an_installed_one_can_be_insisted_on() -> None:
    with pytest.raises(JavaMissingError, match=r"JAVA_HOME or on PATH.*KAFKA_JAVA=bundled"):
        java.find_java("installed")


@pytest.mark.usefixtures("nothing_installed")
def test_with_no_java_at_all_the_message_says_what_brings_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "bundled_java", lambda: None)
    with pytest.raises(JavaMissingError, match="make install"):
        java.find_java()


def test_the_setting_names_a_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = fake_java(tmp_path, "25")
    monkeypatch.setenv("KAFKA_JAVA", str(chosen))
    assert java.find_java() == chosen


def test_a_named_java_that_is_too_old_or_does_not_run_is_refused(tmp_path: Path) -> None:
    old = fake_java(tmp_path, "11.0.2")
    with pytest.raises(JavaMissingError, match="is Java 11, and Kafka needs 17"):
        java.find_java(str(old))
    with pytest.raises(JavaMissingError, match="does not run"):
        java.find_java(str(tmp_path))
