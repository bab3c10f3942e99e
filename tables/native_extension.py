"""Loads the native extension (kernel/), which does in Rust what Python does for plain messages, several times faster.

The table uses it to count rows (tables/places.py), the worker for its whole fast path (app/kafka/fast_path/).
"""

import importlib
import os
from typing import Any, Final

#: Only the extension of this release is used, because other releases may write different rows.
VERSION: Final = "0.2.0"
#: The version of the extension's functions (kernel/src/python/mod.rs), which may change within a release.
API: Final = 5


def found() -> tuple[Any, str]:
    """Return the extension and ""; or None and the reason why it is not used."""
    if os.environ.get("PUNCTUAL_KERNEL") == "off":
        return None, "PUNCTUAL_KERNEL is off"
    try:
        extension = importlib.import_module("punctual_kernel")
    except ModuleNotFoundError:
        return None, "it is not installed"
    except ImportError as error:
        return None, f"it cannot be imported ({error})"
    version = getattr(extension, "__version__", "an older version")
    if version != VERSION:
        return None, f"the installed native extension has version {version}, not {VERSION}"
    if getattr(extension, "API", 0) != API:
        return None, "the installed native extension was built from different sources. Build it again"
    return extension, ""


#: The native extension or None, and the reason why it is None.
module, missing = found()
