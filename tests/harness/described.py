"""Requests that schemathesis makes of an OpenAPI document, right ones and wrong ones, and what holds of the answers."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

#: The document's statuses, types and bodies apply to each answer. 503 means that Kafka is down.
_CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
_CONFIG = '[checks.not_a_server_error]\nexpected-statuses = ["2xx", "4xx", "503"]\n'

needs_schemathesis = pytest.mark.skipif(
    importlib.util.find_spec("schemathesis") is None, reason="schemathesis is not installed (test extra)"
)


def operations_checked(url: str, directory: Path, examples: int, *options: str) -> int:
    """Test the operations that the document of a server describes; return their number.

    Args:
        url: the server's.
        directory: for schemathesis' files.
        examples: how many requests it makes up for each operation, at most.
        options: further options of `schemathesis run`.

    Raises AssertionError, with schemathesis' report, for an answer that the document does not describe.
    """
    config = directory / "schemathesis.toml"
    config.write_text(_CONFIG, "utf-8")
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run"]
    command += [f"{url}/api/v1/openapi.json", "--checks", _CHECKS, "--max-examples", str(examples), "--no-color"]
    command += ["--phases", "examples,coverage,fuzzing", *options]
    ran = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=600)
    assert ran.returncode == 0, ran.stdout[-6_000:] + ran.stderr[-2_000:]
    tested = re.search(r"Tested: (\d+)", ran.stdout)
    assert tested is not None, ran.stdout[-2_000:]
    return int(tested[1])
