"""The fast path: plain requests, rows and deliveries, many per call (start with interface.py).

`chosen` is the implementation that this worker uses: the native extension if it is installed, otherwise Python.
"""

from app.kafka.fast_path import in_python, in_rust
from app.kafka.fast_path.interface import FastPath
from tables import native_extension

_python: FastPath = in_python
_rust: FastPath = in_rust
chosen = _python if native_extension.module is None else _rust
