"""One setting: the environment variable that it is, declared and read."""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from app.base.errors import SettingInvalid

if TYPE_CHECKING:
    from dataclasses import Field


def is_secret(env: str) -> bool:
    """Return whether what a variable says is shown to nobody."""
    return env.endswith(("_PASSWORD", "_SECRET"))


def setting(env: str, default: str, parse: Callable[[str], Any] = str, was: str = "") -> Any:
    """Declare a setting; `was` is the name that it had before, which goes on working."""
    return field(repr=not is_secret(env), metadata={"env": env, "default": default, "parse": parse, "was": was})


def read(declared: "Field[Any]", env: Mapping[str, str]) -> Any:
    """Return what `env` says of a setting, or its default.

    Raises SettingInvalid, which names the variable and says what it takes.
    """
    name, parse = declared.metadata["env"], declared.metadata["parse"]
    if not env.get(name) and env.get(declared.metadata["was"]):
        name = declared.metadata["was"]
    text = env.get(name) or declared.metadata["default"]
    try:
        return parse(text)
    except ValueError as error:
        shown = "(not shown)" if is_secret(name) else repr(text)
        raise SettingInvalid(name, shown, str(error)) from error
