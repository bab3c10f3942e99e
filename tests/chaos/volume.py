"""A file system of its own for a data directory: it can be filled, and break, without harm to anything else."""

import errno
import os
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Self
from unittest import SkipTest


class Volume:
    """An ext4 of `size` bytes in a file on a loop device, mounted at `path` while the `with` block lasts.

    Raises unittest.SkipTest, which pytest knows, where this process may not mount.
    """

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self._image, self._ballast = Path(f"{path}.img"), path / "ballast"
        self._size = size
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.path.mkdir()
        with self._image.open("wb") as image:
            image.truncate(self._size)
        try:
            _run("mkfs.ext4", "-q", "-F", "-m", "0", str(self._image))
            self._mount()
        except (OSError, subprocess.CalledProcessError) as error:
            why = getattr(error, "stderr", None) or error
            raise SkipTest(f"a file system of its own cannot be mounted here: {why}") from error
        self._stack.callback(self._unmount)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._image.unlink()

    def _mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.path))

    def _unmount(self) -> None:
        _run("umount", "--lazy", str(self.path))

    @property
    def free(self) -> int:
        """How many bytes are free."""
        return shutil.disk_usage(self.path).free

    def fill(self, leave: int = 0) -> None:
        """Fill it until `leave` bytes are free."""
        with self._ballast.open("ab") as ballast:
            while (more := min(self.free - leave, 1 << 20)) > 0:
                try:
                    ballast.write(b"\x00" * more)
                    ballast.flush()
                    os.fsync(ballast.fileno())
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    break

    def make_room(self) -> None:
        """Remove the ballast."""
        self._ballast.unlink(missing_ok=True)

    def fail(self) -> None:
        """Make it read-only during writes, as the kernel does after disk errors."""
        _run("mount", "-o", "remount,abort", str(self.path))

    def repair(self) -> None:
        """Unmount, check and mount it again; no process may be using it."""
        _run("umount", str(self.path))
        checked = subprocess.run(["e2fsck", "-fy", str(self._image)], check=False, capture_output=True)  # noqa: S607
        assert checked.returncode < 4, checked.stdout.decode()  # 4 and more: errors are left
        self._mount()


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
