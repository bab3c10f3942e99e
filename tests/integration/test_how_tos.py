"""The how-tos on retries, queues and dead letters work: their commands and programs are run next to a worker."""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs import how_to
from tests.harness.kafka import create_topic
from tests.harness.program import Program
from tests.harness.waiting import PROGRAM_S, eventually
from tests.integration.conftest import Run
from tests.integration.installation import Installation

_DOCS = Path(__file__).parents[2] / "docs/how-to"
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[str]:
    return _BLOCK.findall((_DOCS / page).read_text("utf-8"))


@pytest.fixture(scope="module")
def installation(run: Run) -> Iterator[Installation]:
    with run("how-tos") as made:
        yield made


def adapted(block: str, installation: Installation, topic: str, *hasten: tuple[str, str]) -> str:
    """Return a program with this test's address, installation and topic, and waits that a test can bear."""
    changes = [('"127.0.0.1:9092"', f'"{installation.bootstrap}"'), ('"orders"', f'"{topic}"'), *hasten]
    for old, new in changes:
        assert old in block, f"the program has no {old}"
        block = block.replace(old, new)
    return block


@pytest.mark.parametrize(
    ("page", "options"),
    [
        ("retry.md", [("DelayClient(", "DelayClient(app_id=APP, bootstrap_servers="), ('"1s"', '"100ms"')]),
        ("acknowledged-queue.md", [("max_attempts=8", "max_attempts=2, app_id=APP")]),
    ],
)
def test_the_program_processes_valid_messages_and_gives_up_on_others(
    page: str, options: list[tuple[str, str]], installation: Installation, tmp_path: Path
) -> None:
    [program] = [block for block in blocks(page) if "asyncio.run(main())" in block]
    topic, group = installation.topic(partitions=2), ('"billing"', f'"{page}"')
    program = adapted(program, installation, topic, group, *options).replace("max_attempts=8", "max_attempts=2")
    script = tmp_path / "program.py"
    script.write_text(f'APP = "{installation.app_id}"\n{program}', "utf-8")
    with Program(tmp_path / "program.log", str(script)) as running:
        for value in (b"fine", b"declined", b"fine too"):
            installation.requests.send([], value + page.encode(), value, topic=topic)
        installation.requests.flush()
        [letter] = installation.dead_letters(b"declined" + page.encode()).values()
        assert running.alive, running.log

    assert (letter.value, letter.header("delay-reason")) == (b"declined", "attempts-exhausted")
    assert "the last with: ValueError: the card was declined" in letter.header("delay-error")
    assert [record.value for record in installation.wait_for(topic, 4)].count(b"declined") == 2


def test_the_faust_app_of_the_how_to_is_one() -> None:
    [block] = [block for block in blocks("retry.md") if "faust.App" in block]
    scope: dict[str, object] = {"__name__": "shop"}

    exec(compile(block, "retry.md", "exec"), scope)  # noqa: S102 - our own documentation

    agents = scope["app"].agents  # type: ignore[attr-defined]
    assert list(agents) == ["shop.charge"]


def test_every_other_snippet_of_the_how_tos_is_python() -> None:
    for page in ("retry.md", "acknowledged-queue.md"):
        for block in blocks(page):
            compile(f"async def main(queue):\n{re.sub('^', '    ', block, flags=re.MULTILINE)}", page, "exec")


def test_dead_letters_are_put_right_and_sent_again_as_the_how_to_says(installation: Installation) -> None:
    if not (shutil.which("kcat") and shutil.which("curl")):
        pytest.skip("kcat and curl are needed (Debian packages)")
    orders, invoices = installation.topic(), f"{installation.app_id}-invoices"
    names = {
        "127.0.0.1:9092": installation.bootstrap,
        "http://127.0.0.1:6066": installation.worker.url,
        "delay-requests": f"{installation.app_id}-requests",
        "oders": f"{installation.app_id}-oders",
        '"orders"': f'"{orders}"',
        "-t orders": f"-t {orders}",
        "invoices": invoices,
        ".venv/bin/python": sys.executable,
    }
    steps = [block for block in how_to.blocks("dead-letters.md") if not block[1].startswith("make topic")]
    lose, find, put_right, arrive, lose_three, count, send_again, jobs, all_arrive = steps

    run_shell(lose, names)
    found = json.loads(eventually_says('"unknown-topic"', find, names))
    [row] = found["rows"]
    assert (row["reason"], row["sent_again"]) == ("unknown-topic", None)
    answer = json.loads(run_shell(put_right, names))
    assert answer["outcome"] == "accepted"
    assert run_shell(arrive, names) == "customer-7: remind me\n"

    run_shell(lose_three, names)
    eventually_says('"matching":3', count, names)
    create_topic(installation.bootstrap, invoices)
    time.sleep(1.1)  # the worker caches a topic's absence for a second
    assert "job_id" in run_shell(send_again, names)
    assert sorted(run_shell(all_arrive, names).splitlines()) == ["1: invoice 1", "2: invoice 2", "3: invoice 3"]
    eventually_says('"state":"done"', jobs, names)
    assert '"matching":0' in run_shell(count, names)


def run_shell(block: tuple[str, str], names: dict[str, str]) -> str:
    """Run commands with a test's names in place of their own; return their output."""
    _, code = block
    for name, instead in names.items():
        code = code.replace(name, instead)
    command = ["bash", "-e", "-c", code]
    return subprocess.run(command, check=True, timeout=PROGRAM_S, capture_output=True, text=True).stdout


def eventually_says(text: str, block: tuple[str, str], names: dict[str, str]) -> str:
    """Run commands until their output contains `text`, because new messages become visible a moment later."""
    said: list[str] = []

    def there() -> bool:
        said.append(run_shell(block, names))
        return text in said[-1]

    eventually(there, what=f"the answer {text}")
    return said[-1]
