"""The compiled path: what is usual goes from bytes to bytes, in one call for many, if the kernel is there (kernel/).

Python is the reference and does all the rest: what the kernel makes is byte for byte what it would have made.
"""

import importlib
import os
from collections import deque
from typing import Any, Final

#: Where something is not usual, it is seldom alone: so many are looked at one by one before the kernel is asked again.
OTHERS: Final = 16


def _found() -> Any:
    """Return the module, None without it."""
    if os.environ.get("PUNCTUAL_KERNEL") == "off":
        return None
    try:
        return importlib.import_module("punctual_kernel")
    except ImportError:
        return None


#: Has an iterator do what it does, in C: a loop in Python would take as long as what is done in it.
exhaust: Final = deque[object](maxlen=0).extend

#: The kernel, or None.
kernel: Final = _found()
