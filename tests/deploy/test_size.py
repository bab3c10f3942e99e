"""The sizes are those of the benchmarks page."""

import subprocess
import sys
from pathlib import Path

from tests.harness.waiting import PROGRAM_S

ROOT = Path(__file__).parents[2]


def _said(*arguments: str) -> dict[str, str]:
    command = [sys.executable, str(ROOT / "deploy" / "size.py"), *arguments]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PROGRAM_S).stdout.splitlines()
    return {line[:26].strip(): line[26:].strip() for line in lines}


def test_a_billion_messages_need_the_resources_of_the_performance_page() -> None:
    said = _said("--pending", "1000000000", "--rate", "100000")
    page = (ROOT / "docs" / "explanation" / "benchmarks.md").read_text("utf-8")
    assert f"| busy cores of workers | {said['busy cores of all workers']} |" in page
    assert f"| workers | {said['workers, one core each']} |" in page
    assert f"| disk of each worker | {float(said['disk of each'].split()[0]):.0f} GB |" in page


def test_larger_values_need_more() -> None:
    small = _said("--pending", "10000000", "--rate", "5000")
    large = _said("--pending", "10000000", "--rate", "5000", "--value-bytes", "10000")
    assert float(large["busy cores of all workers"]) > 2 * float(small["busy cores of all workers"])
