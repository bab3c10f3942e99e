"""The native extension, for its tests, which are skipped without it, unless PUNCTUAL_KERNEL requires it."""

import contextlib
import importlib
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from app.kafka import fast_path
from app.kafka.fast_path import in_python, in_rust
from tables import places

#: How examples are made here, on machines that do other things too.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

kernel: Any = None
with contextlib.nullcontext() if os.environ.get("PUNCTUAL_KERNEL") == "require" else contextlib.suppress(ImportError):
    kernel = importlib.import_module("punctual_kernel")

#: Marks tests that need the native extension.
needed = pytest.mark.skipif(
    kernel is None, reason="the native extension is not built: `make build NAME=kernel` shows why"
)
#: Whether the native extension is tested, or its Python counterpart.
WAYS = [pytest.param(True, marks=needed, id="kernel"), pytest.param(False, id="python")]


def take_path(patch: pytest.MonkeyPatch, *, native: bool) -> None:
    """Have the worker and its table use the native extension, or Python alone."""
    patch.setattr(in_rust, "_extension", kernel)
    patch.setattr(fast_path, "chosen", in_rust if native else in_python)
    patch.setattr(places, "of_rows", kernel.places if native else places.in_python)
