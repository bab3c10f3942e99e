"""Instructions to install a distribution of Punctual, for messages about a missing one.

The distributions are not on a package index yet, and others could register similar names there: the command uses none.
"""

import importlib
from types import ModuleType


def install_command(requirement: str) -> str:
    """Return the command that installs `requirement`, such as `punctual-kafka[encryption]`, from local wheels."""
    return (
        f"`pip install --no-index --find-links WHEELS '{requirement}'`, where WHEELS is a directory of wheels "
        '("From wheels" in docs/how-to/deploy.md says how to fill it)'
    )


def module_of_worker(name: str, requirement: str) -> ModuleType:
    """Import and return a module of the worker, which is a distribution of its own.

    Args:
        name: the module's name, such as `app.dev.testing`.
        requirement: the distribution that contains it, as the message names it.

    Raises:
        ImportError: the worker is not installed. The message names the command that installs it.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or f"{name}.".startswith(f"{error.name}."):
            raise ImportError(
                "This needs the distribution punctual-kafka-worker, which is not installed here, or is hidden by "
                f"another package named `app`. Install it: {install_command(requirement)}."
            ) from error
        raise
