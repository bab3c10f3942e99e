"""The how-tos on retries and queues do what they say: their programs are run beside a worker."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.program import Program
from tests.integration.conftest import Run
from tests.integration.installation import Installation

_DOCS = Path(__file__).parents[2] / "docs/how-to"
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[str]:
    return _BLOCK.findall((_DOCS / page).read_text())


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
def test_the_program_processes_what_it_can_and_gives_up_on_what_it_cannot(
    page: str, options: list[tuple[str, str]], installation: Installation, tmp_path: Path
) -> None:
    [program] = [block for block in blocks(page) if "asyncio.run(main())" in block]
    topic, group = installation.topic(partitions=2), ('"billing"', f'"{page}"')
    program = adapted(program, installation, topic, group, *options).replace("max_attempts=8", "max_attempts=2")
    script = tmp_path / "program.py"
    script.write_text(f'APP = "{installation.app_id}"\n{program}')
    before = len(installation.dead_letters(0))
    with Program(tmp_path / "program.log", str(script)) as running:
        for value in (b"fine", b"declined", b"fine too"):
            installation.requests.send([], value + page.encode(), value, topic=topic)
        installation.requests.flush()
        letter = installation.dead_letters(before + 1, 40)[b"declined" + page.encode()]
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
