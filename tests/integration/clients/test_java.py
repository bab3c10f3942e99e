"""The documents' Java code runs: sendLater as it stands, and the error handler for Spring."""

import os
import re
import subprocess
import textwrap
from pathlib import Path

from app.dev.broker.jars import kafka_jars
from tests.harness.waiting import PROGRAM_S
from tests.harness.worker import ROOT
from tests.integration.clients.programs import HERE, java
from tests.integration.installation import Installation


def snippet(page: str) -> str:
    """Return the Java of a document."""
    [found] = re.findall(
        r"^```java\n(.*?)^```$", (ROOT / "docs/how-to" / page).read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    return str(found)


def test_send_later_delivers_at_its_time_and_takes_a_cancel(installation: Installation, tmp_path: Path) -> None:
    to, program = installation.topic(), tmp_path / "SendLater.java"
    program.write_text(
        snippet("use-from-java.md").replace('"delay-requests"', f'"{installation.requests.topic}"'), "utf-8"
    )
    jars = os.pathsep.join(map(str, kafka_jars()))
    command = [str(java()), "-cp", jars, str(program), installation.bootstrap, to]
    subprocess.run(command, check=True, capture_output=True, timeout=PROGRAM_S)

    installation.await_event("cancelled", "an-id")
    deliveries = installation.wait_for(to, 2)
    assert sorted(record.value or b"" for record in deliveries) == [b"after", b"at"]
    for record in deliveries:
        assert (record.key, record.timestamp_ms >= int(record.header("delay-due"))) == (b"k", True)


def test_the_error_handler_of_the_documents_is_the_one_that_this_test_runs() -> None:
    method = textwrap.indent(snippet("migrate-from-spring-retry.md"), "    ")

    assert method in (HERE / "java/RetryByHandler.java").read_text("utf-8")
