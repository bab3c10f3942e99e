"""README.md and the tutorial work: each of their blocks is run as it stands, in a fresh clone.

The clone is the only preparation. Ports and directories are the default ones, so these tests have the machine's 9092
and 6066 to themselves. pip's downloads and cargo's builds are cached, as on a machine that had both before, and pip
leaves it to Python to compile the modules that are imported.
"""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.dev.broker.errors import PortTakenError
from app.dev.broker.ports import require_free
from tests.harness.document import Block, Reader, blocks, clone, turn
from tests.harness.worker import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PORTS = {9092: "Kafka", 6066: "the console"}
START = Block("sh", "make install\n", ""), Block("sh", "make kafka\n", "")
Says = dict[str, str]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a clone in which both documents begin; only the first `make install` installs."""
    directory = tmp_path_factory.mktemp("fresh") / "punctual"
    clone(directory)
    return directory


@pytest.fixture(autouse=True)
def ports() -> Iterator[None]:
    """The ports that all documents use."""
    with turn():
        yield


@pytest.fixture
def read(tree: Path) -> Iterator[Callable[[str], Says]]:
    """Runs a document's blocks: `read("README.md")` gives what each has written."""
    for port, what in PORTS.items():
        try:
            require_free(port)
        except PortTakenError:
            pytest.fail(f"The documents' commands use port {port} for {what}. Stop what listens there, and try again.")
    left_out: list[str] = []

    def run(name: str, *before: Block) -> Says:
        said: Says = {}
        with Reader(tree, CARGO_TARGET_DIR=str(ROOT / "kernel" / "target"), PIP_COMPILE="0") as reader:
            for block in (*before, *blocks(tree / name)):
                if "kcat" in block.code and shutil.which("kcat") is None:
                    left_out.append(block.code)
                    continue
                said[block.code] = reader.run(block)
        return said

    yield run
    git = shutil.which("git") or "git"
    subprocess.run([git, "clean", "-fdxq", "-e", ".venv"], cwd=tree, check=True)
    if left_out:
        pytest.skip(f"kcat is not installed (a Debian package), and {len(left_out)} blocks need it: the rest has run")


def of(said: Says, part: str) -> str:
    """Return the output of the block with `part` in its code, empty if kcat is missing and the block was skipped."""
    return next((written for code, written in said.items() if part in code), "")


@pytest.mark.core
def test_the_readme_has_the_described_effects(read: Callable[[str], Says]) -> None:
    said = read("README.md")

    assert any("SyncDelayClient" in code for code in said)
    if shutil.which("kcat"):
        assert "created the topic hello" in of(said, "make topic")
        assert "customer-7: hello from the past (delay-id=delay-requests-" in of(said, "-t hello -c 1")


@pytest.mark.core
def test_the_tutorial_has_the_described_effects(read: Callable[[str], Says]) -> None:
    said = read("docs/tutorial.md")

    [scheduled, delivered] = of(said, "DelayClient").splitlines()
    assert scheduled.startswith("scheduled two messages")
    assert delivered.startswith("b'world' {'delay-id': b'delay-requests-")
    if shutil.which("kcat"):
        assert of(said, "echo again") == "again\n"
        assert re.findall(r"\b(accepted|cancelled)\b", of(said, "delay-id=third")) == ["accepted", "cancelled"]
        assert re.findall(r"s: (.*)", of(said, "async for payment")) == [
            *["the card provider is down"] * 3,
            "charged for a lamp",
        ]
        assert of(said, "-t hello -c 3") == "world\nagain\nsurvived\n"
        assert '"outcome":"rescheduled"' in of(said, "punctual show morning")
        assert of(said, "punctual show morning").endswith("\nsurvived\ngood morning\n")
        assert "'Delay-To' is not 'delay-to'" in of(said, "Delay-To")
        assert "delay-reason=unknown-topic" in of(said, "Delay-To")


#: How-tos that begin with a Kafka, and all the messages that each delivers, once each.
DELIVERS = {
    "foreign-topics": {"customer-7: call back", "customer-7: and again"},
    "migrate-from-etf1": {'vid1: "video 1"', 'vid3: "video 3"'},
    "migrate-from-airtel": {'2: {"order":2}', '3: {"order":3}'},
    "migrate-from-rabbitmq": {"please pay"},
    "migrate-from-sorted-set": {"2: call 2", ": call 3"},
    "migrate-from-spring-retry": {"1: an older order", "2: a new order"},
}


@pytest.mark.parametrize("name", DELIVERS)
def test_coming_from_another_system_works_as_its_document_says(name: str, read: Callable[..., Says]) -> None:
    said = read(f"docs/how-to/{name}.md", *START)

    if shutil.which("kcat"):
        lines = of(said, "kcat -Cq").splitlines()
        assert {line.partition(" (")[0] for line in lines} == DELIVERS[name]
        assert len(lines) == len(DELIVERS[name])
