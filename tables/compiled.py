"""The compiled path: what is plain goes from bytes to bytes, in one call for many, if the kernel is there (kernel/).

Without it the same calls are of Python, each beside whoever makes it; there, rows that are sent are decoded once. What
is not plain goes one by one, which is the reference: what both make of the plain is byte for byte what it would make.
"""

import importlib
import os
from collections import deque
from typing import Any, Final

#: The kernel of this release alone is taken: another one may call its parts otherwise, or write other rows.
VERSION: Final = "0.2.0"
#: And of that only one with these calls, as they change between releases too.
API: Final = 5
#: Where something is not plain, it is seldom alone: so many are looked at one by one before the kernel is asked again.
OTHERS: Final = 16


def found() -> tuple[Any, str]:
    """Return the kernel, or None and why it is not taken."""
    if os.environ.get("PUNCTUAL_KERNEL") == "off":
        return None, "PUNCTUAL_KERNEL is off"
    try:
        module = importlib.import_module("punctual_kernel")
    except ModuleNotFoundError:
        return None, "it is not installed"
    except ImportError as error:
        return None, f"it cannot be imported ({error})"
    version = getattr(module, "__version__", "an older version")
    if version != VERSION:
        return None, f"the installed native extension has version {version}, not {VERSION}"
    if getattr(module, "API", 0) != API:
        return None, "the installed native extension was built from different sources. Build it again"
    return module, ""


def next_look(plain: int) -> int:
    """Return among how many to look for plain ones next, where so many have just been: seldom among all in vain."""
    return 2 * max(plain, OTHERS)


#: Has an iterator do what it does, in C: a loop in Python would take as long as what is done in it.
exhaust: Final = deque[object](maxlen=0).extend

#: The kernel, or None; and why it is None.
kernel, missing = found()
