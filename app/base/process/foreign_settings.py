"""Environment variables that libraries read by themselves; only Punctual's own settings may have an effect.

Faust reads some 80 settings (faust/types/settings/settings.py, `env_name=`), which would override Punctual's; they
are turned off where its app is made (app/worker.py). The variables here are read at import, or at each use.
tests/app/base/process/test_foreign_settings.py finds the names in the libraries' sources.
"""

import os
import sys
from collections.abc import MutableMapping, Sequence
from typing import Final

#: faust/types/_env.py and faust/__init__.py, each with the prefixes FAUST_ and F_.
_OF_FAUST: Final = (
    "BLOCKING_TIMEOUT",
    "CONSOLE_PORT",
    "DATADIR",
    "DEBUG",
    "FORCE_BLOCKING_TIMEOUT",
    "F_WEB_BIND",
    "LOOP",
    "STRICT",
    "WEB_PORT",
    "WEB_TRANSPORT",
    "WORKDIR",
)
#: Read while Faust and mode are imported, before this module can remove them.
AT_IMPORT: Final = frozenset(
    {f"{prefix}{name}" for prefix in ("FAUST_", "F_") for name in _OF_FAUST}
    | {"DEVLOG", "GEVENT_LOOP", "NO_CYTHON", "TYPEXPR_DEBUG"}
)
#: Read later: Faust would start Django, and prometheus_client would keep its counters in files.
LATER: Final = frozenset(
    {
        "DJANGO_SETTINGS_MODULE",
        "PROMETHEUS_DISABLE_CREATED_SERIES",
        "PROMETHEUS_LEGACY_NAME_VALIDATION",
        "PROMETHEUS_MULTIPROC_DIR",
        "prometheus_multiproc_dir",
    }
)
#: Set when the process starts again without these variables.
_MARK: Final = "PUNCTUAL_ENVIRONMENT"


def drop(env: MutableMapping[str, str] = os.environ, command: Sequence[str] = sys.orig_argv) -> None:
    """Remove the variables from `env`; if some were read already, start Faust's command line again without them.

    The process id stays the same, and so do its signals. A program that imports the app is not started again.
    """
    late = AT_IMPORT & env.keys()
    for name in late | (LATER & env.keys()):
        del env[name]
    if late and _is_fausts() and env.get(_MARK) != str(os.getpid()):
        env[_MARK] = str(os.getpid())
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, *command[1:]], dict(env))  # noqa: S606 - it replaces this process


def _is_fausts() -> bool:
    """Return whether the program is Faust's command line: the script, or `python -m faust`."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return os.path.basename(sys.argv[0]) == "faust" or getattr(spec, "name", None) == "faust.__main__"  # noqa: PTH119 - a name
