"""Names that modules had until 0.2.0 still work, and say which names to use."""

import importlib
import subprocess
import sys

import pytest

from tests.harness.worker import ROOT


@pytest.mark.parametrize(("former", "name"), [("app.testing", "punctual.testing"), ("app.embedded", "punctual.dev")])
def test_a_former_module_warns_and_has_the_names_of_the_new_one(former: str, name: str) -> None:
    sys.modules.pop(former, None)
    with pytest.warns(DeprecationWarning, match=f"{former} will be removed: import {name}"):
        old = importlib.import_module(former)

    new = importlib.import_module(name)
    for exported in old.__all__:
        assert getattr(old, exported) is getattr(new, exported)


@pytest.mark.slow
def test_the_former_command_for_passwords_prints_a_users_line() -> None:
    command = [sys.executable, "-m", "app.access.password", "ann", "viewer"]
    done = subprocess.run(command, input="12345678\n", capture_output=True, text=True, check=True, cwd=ROOT)

    assert done.stdout.startswith('[users.ann]\nrole = "viewer"\n')
    assert done.stderr == "`python -m app.access.password` will be removed: use `punctual password`.\n"


@pytest.mark.slow
def test_the_former_command_for_a_broker_runs_one() -> None:
    command = [sys.executable, "-m", "app.embedded"]
    done = subprocess.run(command, env={"KAFKA_PORT": "x"}, capture_output=True, text=True, check=False, cwd=ROOT)

    assert done.returncode == 2
    assert "will be removed: use `punctual broker`" in done.stderr
    assert "KAFKA_PORT is 'x'" in done.stderr


def test_a_name_that_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("app.nonsense")
