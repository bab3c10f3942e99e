"""etf1's scheduler, as far as it needs neither Go nor Kafka."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from benchmarks.baselines import etf1, etf1_build
from benchmarks.errors import BaselineMissing


def test_its_clock_shows_the_same_hour_whenever_it_is_started() -> None:
    midnight = datetime(2026, 1, 1, tzinfo=UTC)
    hours = [midnight + timedelta(hours=hour) for hour in range(24)]

    assert {at.astimezone(ZoneInfo(etf1._zone(at.hour))).hour for at in hours} == {6}


def test_without_go_it_is_left_out_with_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)

    with pytest.raises(BaselineMissing, match="The baseline etf1 needs go and gcc"):
        etf1_build.scheduler()


def test_without_its_modules_it_is_left_out_with_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho downloading >&2; echo proxy: no answer >&2; exit 1\n", "utf-8")
    go.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda *_, **__: str(go))

    with pytest.raises(BaselineMissing, match="could not be fetched or built: proxy: no answer"):
        etf1_build.scheduler()

    assert not list(tmp_path.rglob("kafka-message-scheduler"))
