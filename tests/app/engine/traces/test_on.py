"""What makes traces is imported while they are on, and only then."""

import subprocess
import sys

import pytest

from app.base.errors import TracesUnusable
from app.engine.traces import traces_of
from app.settings.settings import Settings
from tests.harness.waiting import PROGRAM_S
from tests.harness.worker import ROOT

_OFF = """
import os
import sys
os.environ["OTEL_TRACES_EXPORTER"] = "none"
from app.settings.settings import Settings
from app.engine.traces import traces_of
from app.worker import create_app
settings = Settings.from_env({})
create_app(settings)
assert traces_of(settings) is None
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""


@pytest.mark.slow
def test_no_library_for_traces_is_imported_while_they_are_off() -> None:
    command = [sys.executable, "-c", _OFF]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=PROGRAM_S)
    assert done.stdout == "[]\n"


def test_a_worker_without_the_libraries_names_the_packages_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "app.engine.traces.traces", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console, otlp")
    with pytest.raises(TracesUnusable, match=r"trace_exporter is not installed.*punctual-kafka-worker\[otel\]"):
        traces_of(Settings.from_env({}))
