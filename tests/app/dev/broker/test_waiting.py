"""What takes long is heard of every few seconds: the download of Kafka, and its start."""

import logging
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.dev.broker import Broker, JarsUnavailableError, jars, waiting
from tests.harness.waiting import LIMIT_S


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "EVERY_S", 0.01)


def test_the_wait_is_reported_repeatedly_until_it_ends() -> None:
    said, thrice = list[str](), threading.Event()

    def say(sentence: str) -> None:
        said.append(sentence)
        if len(said) == 3:
            thrice.set()

    with waiting.telling(say, lambda seconds: f"{seconds:.0f} s"):
        assert thrice.wait(LIMIT_S)
    count = len(said)

    assert set(said) == {"0 s"}
    assert not [thread for thread in threading.enumerate() if "tell" in thread.name]
    assert len(said) == count


def test_a_download_says_how_many_files_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    two = threading.Event()

    def say(sentence: str) -> None:
        if "Maven Central: 2 files so far" in sentence:
            two.set()

    def fetch(_endpoint: str) -> None:
        log = logging.getLogger("jgo.maven._resolver")
        for name in ("a.pom", "a.jar"):
            log.debug("Trying %s", name)
            log.debug("Downloaded %s to here", name)
        assert two.wait(LIMIT_S)
        raise ConnectionError("enough")

    monkeypatch.setitem(sys.modules, "jgo", SimpleNamespace(build=fetch))
    with pytest.raises(JarsUnavailableError, match="enough"):
        jars.kafka_jars(say)
    assert not logging.getLogger("jgo.maven._resolver").handlers


@pytest.mark.kafka
def test_a_brokers_start_says_that_it_goes_on(tmp_path: Path) -> None:
    said = set[str]()
    with Broker(tmp_path / "data", say=said.add):
        assert any(sentence.startswith("Kafka is starting, ") for sentence in said)
