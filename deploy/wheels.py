"""Builds the packages of a release into dist/: `make build`, or python deploy/wheels.py --target x86_64-apple-darwin.

The library and the worker are one wheel each, for all systems. The native extension has a source package, and one
wheel for each system. One machine builds them all: zig links them for an old C library of Linux, and for macOS.
"""

import argparse
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: The targets of the native extension, and the system that its wheel must run on: maturin checks that it does.
TARGETS = {
    "x86_64-unknown-linux-gnu": "manylinux2014",
    "aarch64-unknown-linux-gnu": "manylinux2014",
    "x86_64-apple-darwin": "pypi",
    "aarch64-apple-darwin": "pypi",
}


class NotBuilt(Exception):
    """Something of a release is not built: why, and what to do."""


def main() -> int:
    """Build all that can be built here; return 1 if that is not all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--target", action="append", choices=TARGETS, help="compile the native extension for these alone"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="a directory, which is emptied (%(default)s)")
    options = parser.parse_args()
    shutil.rmtree(options.out, ignore_errors=True)
    out = str(options.out.absolute())
    parts = {
        "punctual-kafka": partial(_run, ROOT / "punctual", "hatchling", "build", "--directory", out),
        "punctual-kafka-worker": partial(_run, ROOT, "hatchling", "build", "--directory", out),
        "the source of punctual-kafka-kernel": partial(_run, ROOT / "kernel", "maturin", "sdist", "--out", out),
    }
    for target in options.target or TARGETS:
        parts[f"punctual-kafka-kernel for {target}"] = partial(_kernel, target, out)
    missing = []
    for name, build in parts.items():
        try:
            build()
        except NotBuilt as error:
            missing.append(f"{name} is not built: {error}")
    print(*sorted(options.out.glob("*")), sep="\n")
    print(*missing, sep="\n", end="\n" * bool(missing), file=sys.stderr)
    return bool(missing)


def _kernel(target: str, out: str) -> None:
    """Build the native extension's wheel for a target. Raises NotBuilt."""
    rustc = shutil.which("rustc")
    if not rustc:
        raise NotBuilt("there is no Rust here. Install it: https://rustup.rs")
    command = [rustc, "--print", "target-libdir", "--target", target]
    library = subprocess.run(command, cwd=ROOT / "kernel", capture_output=True, text=True, check=False).stdout.strip()
    if not library or not Path(library).is_dir():
        raise NotBuilt(f"Rust's library for it is not here. Run `rustup target add {target}`, and this once more")
    how = ("--release", "--locked", "--zig", "--compatibility", TARGETS[target], "--auditwheel", "check")
    _run(ROOT / "kernel", "maturin", "build", *how, "--target", target, "--out", out)


def _run(directory: Path, *command: str) -> None:
    """Run a builder's module, whose words go to standard error. Raises NotBuilt."""
    # maturin finds zig by the python that is found first.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    # No path of the machine that it is built on stands in what is built.
    crates = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    flags = f"--remap-path-prefix={crates}=/cargo\x1f--remap-path-prefix={ROOT}=/punctual"
    environment = os.environ | {"PATH": path, "CARGO_ENCODED_RUSTFLAGS": flags}
    words = [sys.executable, "-m", *command]
    if subprocess.run(words, cwd=directory, env=environment, stdout=sys.stderr, check=False).returncode:
        raise NotBuilt("its builder says why above")


if __name__ == "__main__":
    sys.exit(main())
