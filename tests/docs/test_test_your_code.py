"""The tests in docs/how-to/test-your-code.md pass, with warnings as errors."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from app.dev.testing import Delayed
from tests.docs.how_to import blocks
from tests.harness.waiting import PROGRAM_S
from tests.harness.worker import ROOT

pytestmark = pytest.mark.slow

_PAGE = "test-your-code.md"
_INI = """[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""
#: Names for the plugin and the client, not for tests.
_NOT_FOR_TESTS = {"close", "partitions"}


def test_the_suite_of_the_page_passes_where_the_plugin_is_installed(tmp_path: Path) -> None:
    program, client, producer = [code for kind, code in blocks(_PAGE) if kind == "python"]
    (tmp_path / "shop.py").write_text(program, "utf-8")
    (tmp_path / "test_shop.py").write_text(client, "utf-8")
    (tmp_path / "test_reports.py").write_text(producer, "utf-8")
    (tmp_path / "pytest.ini").write_text(_INI, "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=PROGRAM_S)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout


def test_each_thing_that_there_is_is_on_the_page() -> None:
    page = (ROOT / "docs/how-to" / _PAGE).read_text("utf-8")
    table = page.partition("## Fixture reference")[2].partition("## Limits")[0]

    public = {name for name in vars(Delayed) if not name.startswith("_")} - _NOT_FOR_TESTS
    assert {name for name in public if not re.search(rf"`{name}\b", table)} == set()


def test_a_suite_that_does_not_use_the_fixture_loads_no_module_of_the_worker() -> None:
    loaded = "{'faust', 'rocksdict', 'aiokafka', 'app.base.clock', 'punctual'} & {*sys.modules}"
    code = f"import sys, app.dev.testing.plugin; print(sorted({loaded}))"
    said = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=PROGRAM_S, cwd=ROOT
    )

    assert said.stdout == "[]\n"
