"""The documents' Go code runs: sendLater as it stands, with the documented commands."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness.worker import ROOT
from tests.integration.installation import Installation

_PAGE = (ROOT / "docs/how-to/use-from-go.md").read_text("utf-8")


def block(language: str) -> str:
    """Return the only block of a language."""
    [found] = re.findall(rf"^```{language}\n(.*?)^```$", _PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.mark.skipif("CLIENTS" not in os.environ, reason="its library is fetched first: make test NAME=clients")
@pytest.mark.skipif(shutil.which("go") is None, reason="go is not installed")
def test_send_later_delivers_at_its_time_and_takes_a_cancel(installation: Installation, tmp_path: Path) -> None:
    to = installation.topic()
    program = block("go").replace('"delay-requests"', f'"{installation.requests.topic}"')
    (tmp_path / "main.go").write_text(program, "utf-8")
    commands = block("sh").replace("127.0.0.1:9092 orders", f"{installation.bootstrap} {to}")
    assert to in commands
    env = os.environ | {"CGO_ENABLED": "0"}
    shell = ["bash", "-e", "-c", commands]
    subprocess.run(shell, cwd=tmp_path, env=env, check=True, timeout=300)

    installation.await_event("cancelled", "an-id")
    [delivery] = installation.wait_for(to, 1)
    assert (delivery.key, delivery.value) == (b"k", b"hello")
    assert delivery.timestamp_ms >= int(delivery.header("delay-due"))
