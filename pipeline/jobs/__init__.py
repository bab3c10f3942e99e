"""The commands: modules with `add_options(parser)` and `run(context, options)`, whose first line is their help."""

from types import ModuleType

JOBS: dict[str, ModuleType] = {}
