"""Debian's Chromium, or another that CHROMIUM names."""

import os
import shutil
from typing import Final

CHROMIUM: Final = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS: Final = ["--no-sandbox"]
