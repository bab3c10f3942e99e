"""What `punctual` offers from the worker's distribution: it is loaded when it is used, and named when it is missing."""

import subprocess
import sys

import pytest

import punctual.dev
import punctual.testing
from punctual.installing import module_of_worker
from tests.harness.worker import ROOT

_HIDDEN = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "app":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
"""


def _python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.mark.core
def test_importing_them_loads_no_module_of_the_worker() -> None:
    done = _python("import punctual.dev, punctual.testing, sys; print({'app', 'faust', 'rocksdict'} & {*sys.modules})")

    assert done.stdout == "set()\n"


@pytest.mark.core
@pytest.mark.parametrize(
    ("module", "name", "requirement"),
    [("testing", "Delayed", "punctual-kafka-worker'"), ("dev", "Broker", "punctual-kafka-worker[dev]'")],
)
def test_without_the_worker_the_error_names_the_command_that_installs_it(
    module: str, name: str, requirement: str
) -> None:
    done = _python(f"{_HIDDEN}\nfrom punctual.{module} import {name}")

    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: This needs the distribution punctual-kafka-worker, which is not installed")
    assert requirement in last


def test_an_error_inside_the_worker_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    monkeypatch.delitem(sys.modules, "app.worker", raising=False)

    with pytest.raises(ModuleNotFoundError, match="uvloop"):
        module_of_worker("app.worker", "punctual-kafka-worker")


@pytest.mark.parametrize("module", [punctual.dev, punctual.testing])
def test_a_name_that_is_not_there_is_an_attribute_error(module: object) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        module.nonsense  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.core
@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["password", "--help"], "usage: punctual password"),
        (["token", "--help"], "usage: punctual token"),
        (["broker", "--help"], "usage: punctual broker"),
    ],
)
def test_the_command_runs_the_workers_own_commands(arguments: list[str], shown: str) -> None:
    program = f"import sys; sys.argv[1:] = {arguments!r}; from punctual.command import main; sys.exit(main())"
    assert _python(program).stdout.startswith(shown)


@pytest.mark.core
def test_the_command_names_the_worker_where_it_is_missing() -> None:
    program = f"{_HIDDEN}\nsys.argv[1:] = ['token', 'shop']\nfrom punctual.command import main\nsys.exit(main())"
    done = _python(program)

    assert done.returncode == 1
    assert "The worker is not installed" in done.stderr
