"""Work in a thread of its own while a `with` block lasts."""

import threading
from abc import ABC, abstractmethod
from typing import Self


class Background(ABC):
    """Runs `_work` in a thread during the block; the exit sets `_over` and raises the thread's error."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._guarded)
        self._failed: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._failed is not None:
            raise self._failed

    def _guarded(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - raised where the block ends
            self._failed = error

    @abstractmethod
    def _work(self) -> None:
        """Go on until `_over` is set."""
