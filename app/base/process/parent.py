"""Ends a worker whose supervising process is gone, also by kill -9: nobody would start it again, or end it."""

import os
import signal
import threading
from collections.abc import MutableMapping
from typing import Final

#: Names the descriptor of a pipe to which nobody writes: it reads as ended when the supervising process is gone.
NAME: Final = "PUNCTUAL_PARENT_FD"
_GRACE_S: Final = 60.0


def watch(env: MutableMapping[str, str] = os.environ) -> None:
    """End this process as SIGTERM does when the one that has started it is gone, if that has asked for it.

    After a minute it ends in any case: what it has not finished is done again by whoever gets its partitions.
    """
    named = env.pop(NAME, "")
    if named:
        threading.Thread(target=_wait, args=(int(named),), name="parent", daemon=True).start()


def _wait(descriptor: int) -> None:
    os.set_inheritable(descriptor, False)  # noqa: FBT003 - it takes no name
    os.read(descriptor, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(_GRACE_S)
    os._exit(1)
