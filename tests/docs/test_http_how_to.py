"""docs/how-to/deliver-over-http.md works: its secret, receiver, settings and message."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.ports import free_port
from tests.harness.waiting import eventually
from tests.harness.worker import ROOT
from tests.integration.installation import running

_DOC = ROOT / "docs/how-to/deliver-over-http.md"
_SHELL = re.findall(r"```sh\n(.*?)```", _DOC.read_text("utf-8"), re.DOTALL)
_PYTHON = re.findall(r"```python\n(.*?)```", _DOC.read_text("utf-8"), re.DOTALL)
_PORT = "8099"


@pytest.fixture
def port() -> str:
    return str(free_port())


@pytest.fixture
def receiver(tmp_path: Path, port: str) -> Iterator[Path]:
    """Run the receiver of the page, with the secret of the page; yield the file with its output."""
    [secret, _] = _SHELL
    subprocess.run(["bash", "-ec", secret.replace(_PORT, port)], cwd=tmp_path, check=True)  # noqa: S607 - as a reader does
    said = tmp_path / "said"
    (tmp_path / "receiver.py").write_text(_PYTHON[0].replace(_PORT, port), "utf-8")
    with (
        said.open("wb") as out,
        subprocess.Popen([sys.executable, "receiver.py"], cwd=tmp_path, stdout=out) as running_,
    ):
        yield said
        running_.kill()


def test_the_example_of_the_page_delivers_a_message(bootstrap: str, tmp_path: Path, port: str, receiver: Path) -> None:
    [_, worker] = _SHELL
    env = {
        name: value.strip("'").replace(_PORT, port)
        for name, value in re.findall(r"^export (\w+)=(.*)$", worker, re.MULTILINE)
    }
    env["DELAY_HTTP_SECRETS_FILE"] = str(tmp_path / env["DELAY_HTTP_SECRETS_FILE"])
    assert set(env) == {"DELAY_HTTP_DESTINATIONS", "DELAY_HTTP_SECRETS_FILE"}
    with running(bootstrap, tmp_path, "how-to", env=lambda _: env) as made:
        client = f'DelayClient("{bootstrap}", app_id="{made.app_id}")'
        program = _PYTHON[1].replace(_PORT, port).replace('DelayClient("127.0.0.1:9092")', client)
        assert client in program
        subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
        made.await_event("delivered", "reminder-42")

        eventually(
            lambda: receiver.read_text("utf-8") == 'reminder-42 {"order":42}\n', what="the output that the page shows"
        )
