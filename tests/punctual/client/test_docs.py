"""The programs in the how-to run as shown."""

import asyncio
import re
import textwrap
from pathlib import Path

import pytest

from punctual import DelayClient
from tests.punctual.client.conftest import Installation

pytestmark = pytest.mark.core

DOC = Path(__file__).parents[3] / "docs" / "how-to" / "use-from-python.md"
ADDRESS = '"127.0.0.1:9092"'
BLOCKS = re.findall(r"```python\n(.*?)```", DOC.read_text("utf-8"), re.DOTALL)
PROGRAMS = [block for block in BLOCKS if ADDRESS in block]
FRAGMENTS = [block for block in BLOCKS if "await client." in block and ADDRESS not in block]
PRELUDE = "from datetime import timedelta\n"


def test_each_snippet_has_a_test_that_runs_it() -> None:
    assert len(BLOCKS) == len(PROGRAMS) + len(FRAGMENTS) + 1
    assert len(PROGRAMS) == len(FRAGMENTS) == 2


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_programs_run(program: str, installation: Installation) -> None:
    here = program.replace(ADDRESS, f'"{installation.bootstrap}", app_id="{installation.app_id}"')

    exec(compile(here, str(DOC), "exec"), {"__name__": "__main__"})  # noqa: S102 - our own documentation

    assert installation.requests(1)


@pytest.mark.parametrize("fragment", FRAGMENTS)
async def test_the_fragments_run_inside_an_open_client(fragment: str, installation: Installation) -> None:
    scope: dict[str, object] = {}
    body = textwrap.indent(fragment, "    ")
    exec(compile(f"{PRELUDE}async def run(client):\n{body}", str(DOC), "exec"), scope)  # noqa: S102 - as above
    run = scope["run"]
    assert asyncio.iscoroutinefunction(run)

    async with DelayClient(installation.bootstrap, app_id=installation.app_id) as client:
        await run(client)

    assert len(installation.requests(2)) == 2


def test_the_faust_app_of_the_how_to_is_one() -> None:
    [block] = [block for block in BLOCKS if "faust.App" in block]
    scope: dict[str, object] = {"__name__": "shop"}

    exec(compile(block, str(DOC), "exec"), scope)  # noqa: S102 - as above

    assert hasattr(scope["app"], "delay")
