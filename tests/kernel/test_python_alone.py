"""With the native extension, the suite uses it, so its Python counterpart is tested here once more."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernel.built import kernel, needed

pytestmark = needed

_TREE = Path(__file__).parents[2]
#: Rooms whose tests come to where the kernel is asked; how requests come in is compared request by request.
_CORE = [f"tests/app/engine/{room}" for room in ("due", "partition", "deliver", "steps")]
_SEEDS = 100


def _without(*command: str) -> str:
    run = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=_TREE,
        env={**os.environ, "PUNCTUAL_KERNEL": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not run.returncode, run.stdout[-10_000:] + run.stderr[-2_000:]
    return run.stdout


@pytest.mark.slow
def test_the_core_passes_its_tests_without_the_kernel() -> None:
    assert kernel is not None
    said = _without("pytest", "-q", "-n", "0", "-m", "not kafka and not slow", *_CORE)

    assert " passed" in said


@pytest.mark.slow
def test_the_promise_is_kept_without_the_kernel() -> None:
    assert f"{_SEEDS} seeds from 0 on" in _without("tests.simulation", "--seeds", f"{_SEEDS}")
