"""The kernel, for tests of it: without one they are left out, unless PUNCTUAL_KERNEL says that it must be there."""

import importlib
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

#: How examples are made here, on machines that do other things too.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

if os.environ.get("PUNCTUAL_KERNEL") == "require":
    kernel: Any = importlib.import_module("punctual_kernel")
else:
    kernel = pytest.importorskip("punctual_kernel", reason="the kernel is not built: `make kernel` says why")
