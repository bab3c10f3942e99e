"""One setting: the variable that it is read from, its default, and what reads it."""

from collections.abc import Callable
from dataclasses import field
from typing import Any


def is_secret(env: str) -> bool:
    """Return whether the value of a variable is shown to nobody."""
    return env.endswith(("_PASSWORD", "_SECRET"))


def setting(env: str, default: str, parse: Callable[[str], Any] = str, was: str = "") -> Any:
    """Declare a setting; `was` is the name that it had before, which goes on working."""
    return field(repr=not is_secret(env), metadata={"env": env, "default": default, "parse": parse, "was": was})
