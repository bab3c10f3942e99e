"""What programs install is `punctual` alone: it builds from its directory, and works without the worker's packages."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CLIENT, WORKER = (
    tomllib.loads((path / "pyproject.toml").read_text("utf-8"))["project"] for path in (ROOT / "punctual", ROOT)
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(directory)]
    subprocess.run([*build, str(ROOT / "punctual")], check=True, capture_output=True)
    [built] = directory.glob("*.whl")
    return built


def test_it_has_one_package_and_none_of_the_worker(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}

    assert {top for top in tops if not top.endswith(".dist-info")} == {"punctual"}


def test_it_has_the_names_that_the_documents_import(wheel: Path) -> None:
    script = "import punctual; print(punctual.DelayClient.__module__, punctual.__file__)"
    run = [sys.executable, "-P", "-c", f"import sys; sys.path.insert(0, {str(wheel)!r}); {script}"]
    said = subprocess.run(run, capture_output=True, text=True, check=True, cwd=wheel.parent).stdout.split()

    assert said[0] == "punctual.client.client"
    assert said[1].startswith(str(wheel))


def test_it_goes_with_the_worker() -> None:
    assert CLIENT["version"] == WORKER["version"]
    assert set(CLIENT["dependencies"]) <= set(WORKER["dependencies"])
