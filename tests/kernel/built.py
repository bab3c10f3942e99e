"""The kernel, for tests of it: without one they are left out, unless PUNCTUAL_KERNEL says that it must be there."""

import contextlib
import importlib
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

#: How examples are made here, on machines that do other things too.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

kernel: Any = None
with contextlib.nullcontext() if os.environ.get("PUNCTUAL_KERNEL") == "require" else contextlib.suppress(ImportError):
    kernel = importlib.import_module("punctual_kernel")

#: Marks what cannot be tested without it.
needed = pytest.mark.skipif(kernel is None, reason="the kernel is not built: `make build NAME=kernel` says why")
#: Whether it is the kernel that is tested, or what does the same in Python.
WAYS = [pytest.param(True, marks=needed, id="kernel"), pytest.param(False, id="python")]
