"""The measured code: this tree as it is, or the tree of a commit."""

import io
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.errors import CommitUnusable

ROOT = Path(__file__).parents[2]
_PACKAGES = ("app", "punctual", "tables")


@dataclass(frozen=True, slots=True)
class Tree:
    """A directory with the packages of a worker."""

    path: Path


def exported(commit: str, directory: Path) -> Tree:
    """Write what `commit` has of the packages to `directory`.

    Raises CommitUnusable if git does not have them.
    """
    git = shutil.which("git")
    if git is None:
        raise CommitUnusable(commit, "git is not installed")
    command = [git, "-C", str(ROOT), "archive", "--format=tar", "--end-of-options", commit]
    archive = subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - fixed but for the commit
    if archive.returncode:
        raise CommitUnusable(commit, archive.stderr.decode(errors="replace").strip())
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as packed:
        members = [one for one in packed if one.name.partition("/")[0] in _PACKAGES]
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Python has it from 3.11.4 on
        packed.extractall(directory, members)  # noqa: S202 - git made it
    return Tree(directory)
