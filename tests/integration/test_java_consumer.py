"""A Java consumer needs only headers: for retries, and for a queue that is acknowledged message by message."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.dev.broker.jars import kafka_jars
from app.dev.broker.java import installed_java
from tests.harness.account import pending_of
from tests.harness.program import Program
from tests.harness.waiting import eventually
from tests.integration.conftest import Run
from tests.integration.installation import Installation, late_ms

_SOURCE = Path(__file__).parent / "java/Consumer.java"
COUNT = 60


@pytest.fixture(scope="module")
def java() -> Path:
    found = installed_java()
    if found is None or not found.resolve().with_name("javac").exists():
        pytest.skip("a JDK 17 or newer in JAVA_HOME or on PATH is needed, which compiles Consumer.java")
    return found


@pytest.fixture(scope="module")
def installation(run: Run) -> Iterator[Installation]:
    with run("java") as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["queue", "retry"])
def test_what_fails_twice_comes_back_twice(mode: str, java: Path, installation: Installation, tmp_path: Path) -> None:
    topic, done = installation.topic(partitions=2), tmp_path / "done"
    for number in range(COUNT):
        installation.requests.send([("n", b"%d" % number)], b"k%d" % number, b"%d" % number, topic=topic)
    installation.requests.flush()
    classes = [
        str(jar) for jar in kafka_jars() if jar.name.startswith(("kafka-clients", "lz4", "snappy", "zstd", "slf4j"))
    ]
    words = [mode, installation.bootstrap, f"{installation.app_id}-requests", topic, "java", str(done)]
    program = Program(tmp_path / "java.log", str(java), "-cp", ":".join(classes), str(_SOURCE), *words, python=False)

    def all_done() -> bool:
        assert program.alive, program.log[-3_000:]
        return done.exists() and done.read_text("utf-8").count("done") >= COUNT

    with program:
        eventually(all_done, 90, "the last message")
        eventually(
            lambda: not sum(pending_of(installation.bootstrap, installation.app_id).values()), what="all markers"
        )

    lines = sorted(tuple(map(str, line.split())) for line in done.read_text("utf-8").splitlines())
    fails = [str(number) for number in range(0, COUNT, 3)]
    assert lines == sorted(
        [(str(number), "1", "done") for number in range(COUNT) if number % 3]
        + [(number, attempt, "failed") for number in fails for attempt in ("1", "2")]
        + [(number, "3", "done") for number in fails]
    )
    back = [record for record in installation.wait_for(topic, COUNT * 5 // 3) if len(record.headers) > 1]
    assert len(back) == COUNT * 2 // 3
    assert all(record.headers[0] == ("n", record.value) for record in back)
    assert min(map(late_ms, back)) >= 0
