"""A secret in a file, which may change while a program runs."""

from pathlib import Path

#: Longer than any password or client secret: somebody has named another file.
_MOST_BYTES = 65_536


class SecretFile:
    """A file that has a secret and nothing else; spaces and line ends around it do not count.

    It is shown by its path alone, and two of the same path are equal.
    """

    __slots__ = ("_last", "path")

    def __init__(self, path: str) -> None:
        """Name the file; it is read when the secret is needed."""
        self.path, self._last = path, ""

    def text(self) -> str:
        """Return what the file has now, or had last if it cannot be read any more.

        Raises ValueError if it never could be.
        """
        try:
            found = self._read()
        except ValueError:
            if not self._last:
                raise
        else:
            self._last = found
        return self._last

    def _read(self) -> str:
        try:
            with Path(self.path).open("rb") as file:
                found = file.read(_MOST_BYTES + 1)
            text = found.decode().strip()
        except OSError as error:
            raise ValueError(f"it cannot be read: {error.strerror}") from error
        except UnicodeDecodeError:
            raise ValueError("it is not UTF-8") from None  # the cause has the bytes
        if not text or len(found) > _MOST_BYTES:
            raise ValueError("there must be one secret in it, and nothing else")
        return text

    def __repr__(self) -> str:
        return f"SecretFile({self.path!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretFile) and other.path == self.path

    def __hash__(self) -> int:
        return hash(self.path)
