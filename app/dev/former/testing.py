"""`app.testing`, the name of `punctual.testing` before 0.2.0."""

import warnings

from app.dev.testing.delayed import Delayed, Options
from app.dev.testing.records import Pending, Post, Record

__all__ = ["Delayed", "Options", "Pending", "Post", "Record"]

warnings.warn("app.testing will be removed: import punctual.testing", DeprecationWarning, stacklevel=2)
