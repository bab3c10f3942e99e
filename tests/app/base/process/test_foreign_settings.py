"""Only Punctual's own settings have an effect: variables that libraries read from the environment are turned off."""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from faust.types.settings import Settings

from app.base.process import foreign_settings
from tests.harness.foreign_settings import HOSTILE, OF_SETTINGS, OURS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]
#: How the libraries read a variable.
_READ = (
    re.compile(r"""os\.environ(?:\.get\(|\[)\s*['"](\w+)['"]"""),
    re.compile(r"""['"](\w+)['"](?: not)? in os\.environ"""),
    re.compile(r"""(?:_getenv\(|env_name=)['"](\w+)['"]"""),
)
#: Names that are read nowhere that a worker comes by.
_ELSEWHERE = {
    "BROKER_PASSWORD",  # an example in a docstring
    "BROKER_USERNAME",  # the same
    "ENVIRONMENT_VARIABLE_NAME",  # the same
    "SHELL",  # of Faust's command `completion`, which is refused
    "FAUST_DATADIR",  # these are in faust/__init__.py with their prefixes
    "FAUST_LOOP",
    "F_DATADIR",
    "F_LOOP",
    "F_WORKDIR",
}


def read_by(package: str) -> set[str]:
    """Return the names of all variables that a library's sources read."""
    sources = (path.read_text("utf-8") for path in Path(importlib.import_module(package).__path__[0]).rglob("*.py"))
    return {name for source in sources for pattern in _READ for name in pattern.findall(source)}


@pytest.mark.core
@pytest.mark.parametrize("package", ["faust", "mode", "prometheus_client"])
def test_each_variable_that_a_library_reads_is_turned_off(package: str) -> None:
    known = foreign_settings.AT_IMPORT | foreign_settings.LATER | _ELSEWHERE | OF_SETTINGS
    known |= {name.removeprefix("FAUST_") for name in foreign_settings.AT_IMPORT}

    assert read_by(package) - known == set()


@pytest.mark.core
def test_all_of_fausts_settings_are_tried() -> None:
    assert {param.env_name for param in Settings.SETTINGS.values() if param.env_name} == OF_SETTINGS
    assert len(OF_SETTINGS) > 60
    assert HOSTILE.keys() >= (OF_SETTINGS - OURS) | foreign_settings.AT_IMPORT | foreign_settings.LATER


def conf(env: dict[str, str]) -> dict[str, str]:
    """Return Faust's settings as the app has them in an environment."""
    script = (
        "import json, sys\n"
        "from app import app\n"
        "names = app.conf.SETTINGS.keys() - {'ssl_context', 'reply_to'}\n"
        "conf = {name: repr(getattr(app.conf, name)) for name in sorted(names)}\n"
        "json.dump(conf | {'fixups': len(app.fixups)}, sys.stdout)\n"
    )
    clean = {name: value for name, value in os.environ.items() if name not in HOSTILE}
    environment = {**clean, "PYTHONPATH": str(ROOT), **env}
    said = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert (said.returncode, said.stderr) == (0, "")
    found: dict[str, str] = json.loads(said.stdout)
    return {name: re.sub("0x[0-9a-f]+", "", str(value)) for name, value in found.items()}


@pytest.mark.core
def test_fausts_settings_are_ours_whatever_the_environment_says() -> None:
    assert conf(HOSTILE) == conf({})


@pytest.mark.parametrize("option", [["--web-bind", "0.0.0.0"], ["--web-port", "1"], ["--without-web"]])  # noqa: S104 - refused
def test_options_that_would_come_before_settings_are_refused(option: list[str]) -> None:
    command = [sys.executable, "-m", "faust", "-A", "app", "worker", *option]
    said = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )

    assert said.returncode == 1
    assert said.stderr.startswith("punctual: unknown option --w")
