"""A secret in a file, which may change while a program runs."""

from pathlib import Path

#: The maximum size: a larger file cannot be a password or client secret.
_MOST_BYTES = 65_536


class SecretFile:
    """A file that contains only a secret; leading and trailing white space is ignored.

    Its representation shows only the path, and objects with the same path are equal.
    """

    __slots__ = ("_last", "path")

    def __init__(self, path: str) -> None:
        """Name the file; it is read when the secret is needed."""
        self.path, self._last = path, ""

    def text(self) -> str:
        """Return the current secret, or the last one if the file cannot be read any more.

        Raises ValueError if it could never be read.
        """
        try:
            text = self._read()
        except ValueError:
            if not self._last:
                raise
        else:
            self._last = text
        return self._last

    def _read(self) -> str:
        try:
            with Path(self.path).open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
            text = content.decode().strip()
        except OSError as error:
            raise ValueError(f"it cannot be read: {error.strerror}") from error
        except UnicodeDecodeError:
            raise ValueError("it is not UTF-8") from None  # the cause contains the bytes
        if not text or len(content) > _MOST_BYTES:
            raise ValueError("it must contain one secret and no other text")
        return text

    def __repr__(self) -> str:
        return f"SecretFile({self.path!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretFile) and other.path == self.path

    def __hash__(self) -> int:
        return hash(self.path)
