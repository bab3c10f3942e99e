"""The kernel, for tests of it: without one they are left out, unless PUNCTUAL_KERNEL says that it must be there."""

import importlib
import os
from typing import Any

import pytest

if os.environ.get("PUNCTUAL_KERNEL") == "require":
    kernel: Any = importlib.import_module("punctual_kernel")
else:
    kernel = pytest.importorskip("punctual_kernel", reason="the kernel is not built: `make kernel` says why")
