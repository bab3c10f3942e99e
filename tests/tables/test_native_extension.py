"""The choice of the native extension, and the reason if it is not used."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from app.base.errors import SettingInvalid
from app.engine.banner import banner
from app.settings.settings import Settings
from tables import native_extension
from tables.native_extension import API, VERSION, found


def _installed(monkeypatch: pytest.MonkeyPatch, module: ModuleType | None) -> None:
    monkeypatch.setitem(sys.modules, "punctual_kernel", module)
    monkeypatch.delenv("PUNCTUAL_KERNEL", raising=False)


def _kernel(version: str | None, api: int = API) -> ModuleType:
    module = ModuleType("punctual_kernel")
    module.__dict__["API"] = api
    if version:
        module.__dict__["__version__"] = version
    return module


def test_the_kernel_of_this_release_is_taken_unless_it_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    module = _kernel(VERSION)
    _installed(monkeypatch, module)
    assert found() == (module, "")
    monkeypatch.setenv("PUNCTUAL_KERNEL", "off")
    assert found() == (None, "PUNCTUAL_KERNEL is off")


@pytest.mark.parametrize(("version", "shown"), [("0.1.9", "0.1.9"), ("0.20", "0.20"), (None, "an older version")])
def test_the_kernel_of_another_release_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, version: str | None, shown: str
) -> None:
    _installed(monkeypatch, _kernel(version))
    assert found() == (None, f"the installed native extension has version {shown}, not {VERSION}")


def test_a_kernel_with_other_calls_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(monkeypatch, _kernel(VERSION, API - 1))
    assert found() == (None, "the installed native extension was built from different sources. Build it again")


def test_an_extension_that_cannot_be_imported_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _installed(monkeypatch, None)
    assert found() == (None, "it is not installed")
    monkeypatch.delitem(sys.modules, "punctual_kernel")
    (tmp_path / "punctual_kernel.py").write_text("raise ImportError('of another processor')", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert found() == (None, "it cannot be imported (of another processor)")


def test_a_worker_says_why_it_has_none_or_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_extension, "module", None)
    monkeypatch.setattr(native_extension, "missing", "the installed native extension has version 0.1.9, not 0.2.0")
    shown = banner(Settings.from_env({}))
    assert "off (Python is used instead): the installed native extension has version 0.1.9, not 0.2.0\n" in shown
    with pytest.raises(
        SettingInvalid, match=r"has version 0\.1\.9, not 0\.2\.0\. Build it in a checkout: `make build "
    ):
        Settings.from_env({"PUNCTUAL_KERNEL": "require"})
