"""The scenarios, by the part that suffers."""

import importlib
import pkgutil


def load() -> None:
    """Import all modules, which registers their scenarios."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
