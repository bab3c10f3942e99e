"""`make test NAME=spark`: quick tests of the pipeline on each version of Spark that has a Kafka connector."""

import os
import subprocess
import sys
from pathlib import Path

from pipeline.jars import CONNECTORS, DELTA

_DIRECTORY = Path("build/spark")
_TESTS = ("test_inputs.py", "test_bulk_requests.py", "test_bulk.py")
_TABLE_TESTS = ("test_commands.py", "test_reconcile.py", "test_ledger.py")


def main() -> int:
    """Install each version next to the others (430 MB each, once), and run the tests with it; return the exit code."""
    codes = {version: _run_tests(version, _install(version)) for version in CONNECTORS}
    for version, code in codes.items():
        sys.stdout.write(f"Spark {version}: {'passed' if code == 0 else 'FAILED'}\n")
    return max(codes.values())


def _install(version: str) -> Path:
    """Install a version of PySpark in a directory of its own, unless it is there; return the directory."""
    directory = _DIRECTORY / version
    if not (directory / "pyspark").exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
        subprocess.run([*pip, "--target", str(directory), f"pyspark=={version}"], check=True)
    return directory


def _run_tests(version: str, directory: Path) -> int:
    """Run the tests with the PySpark in `directory` in place of the environment's; return the exit code of pytest."""
    sys.stderr.write(f"Spark {version}\n")
    tests = (f"tests/pipeline/{name}" for name in (*_TESTS, *(_TABLE_TESTS if version in DELTA else ())))
    environment = os.environ | {"PYTHONPATH": str(directory.absolute())}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", *tests], env=environment, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
