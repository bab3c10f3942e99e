"""A setting: its environment variable, declared and read. A secret may also be in a file."""

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from app.base.errors import SettingInvalid
from punctual.security.secret_file import SecretFile

if TYPE_CHECKING:
    from dataclasses import Field

Section = TypeVar("Section")


def is_secret(env: str) -> bool:
    """Return whether the value of a variable must not be shown."""
    return env.endswith(("_PASSWORD", "_SECRET"))


def setting(
    env: str, default: str, parse: Callable[[str], Any] = str, *, shared: bool = False, rotates: bool = False
) -> Any:
    """Declare a setting. If it is `shared`, it must have the same value on all workers of an installation.

    The value of a secret may also be in a file, whose path is in `env` with `_FILE` after it, and which is read at
    start. With `rotates`, the value is then a SecretFile, to be read whenever the secret is needed.
    """
    metadata = {"env": env, "default": default, "parse": parse, "shared": shared, "rotates": rotates}
    return field(repr=not is_secret(env), metadata=metadata)


def variables(declared: "Field[Any]") -> set[str]:
    """Return the environment variables that can set a setting."""
    env = declared.metadata["env"]
    return {env, f"{env}_FILE"} if is_secret(env) else {env}


def read(declared: "Field[Any]", env: Mapping[str, str]) -> Any:
    """Return the value of a setting in `env`, or its default.

    Raises SettingInvalid, which names the variable and its valid values.
    """
    name, parse = declared.metadata["env"], declared.metadata["parse"]
    if is_secret(name) and env.get(f"{name}_FILE"):
        return _in_file(declared, env)
    text = env.get(name) or declared.metadata["default"]
    try:
        return parse(text)
    except ValueError as error:
        shown = "(not shown)" if is_secret(name) else repr(text)
        raise SettingInvalid(name, shown, str(error)) from error


def read_section(section: type[Section], env: Mapping[str, str]) -> Section:
    """Return a section whose settings are read from `env`. Raises SettingInvalid as `read` does."""
    return section(**{declared.name: read(declared, env) for declared in fields(section)})  # type: ignore[arg-type]


def _in_file(declared: "Field[Any]", env: Mapping[str, str]) -> Any:
    name = declared.metadata["env"]
    path = env[f"{name}_FILE"]
    if env.get(name):
        raise SettingInvalid(f"{name}_FILE", repr(path), f"{name} is set too. Remove one of the two")
    file = SecretFile(path)
    if declared.metadata["rotates"]:
        return file
    try:
        return declared.metadata["parse"](file.text())
    except ValueError as error:
        raise SettingInvalid(f"{name}_FILE", repr(path), str(error)) from error
