"""The workers that may start during and after a repartition."""

import re

import msgspec
import pytest

from app.base.errors import TopicMismatch
from app.engine.topics.creation import _assure_changelog
from app.engine.topics.layout import Layout, Stage, later
from app.settings.settings import Settings

BEFORE = Settings.from_env({})
AFTER = Settings.from_env({"DELAY_PARTITIONS": "24", "DELAY_REPARTITIONED": "on"})
OTHERS = [
    Settings.from_env({"DELAY_PARTITIONS": "24"}),
    Settings.from_env({"DELAY_REPARTITIONED": "on"}),
    Settings.from_env({"DELAY_PARTITIONS": "64", "DELAY_REPARTITIONED": "on"}),
]


def layout(stage: Stage) -> Layout:
    return Layout(
        stage=stage,
        before=16,
        after=24,
        changelog_before=BEFORE.topics.changelog,
        changelog=AFTER.topics.changelog,
        began_ms=0,
    )


@pytest.mark.parametrize("stage", ["copying", "switching"])
@pytest.mark.parametrize("settings", [BEFORE, AFTER, *OTHERS])
def test_no_worker_starts_while_partitions_are_rewritten(stage: Stage, settings: Settings) -> None:
    why = layout(stage).forbids(settings.topics)
    assert why is not None
    assert "Run `faust -A app repartition --to 24`" in why
    assert ("--abandon" in why) == (stage == "copying")


@pytest.mark.parametrize(
    ("stage", "may", "says"),
    [
        ("done", AFTER, "Set DELAY_PARTITIONS=24 and DELAY_REPARTITIONED=on"),
        ("abandoned", BEFORE, "Set DELAY_PARTITIONS=16 and DELAY_REPARTITIONED=off"),
    ],
)
def test_afterwards_only_those_start_that_have_the_settings_that_hold(stage: Stage, may: Settings, says: str) -> None:
    assert layout(stage).forbids(may.topics) is None
    for settings in (one for one in (BEFORE, AFTER, *OTHERS) if one is not may):
        why = layout(stage).forbids(settings.topics)
        assert why is not None
        assert says in why


@pytest.mark.parametrize(
    ("settings", "there", "what"),
    [
        (BEFORE, ["delay-p24-delays-changelog"], "Changelogs of this installation: delay-p24-delays-changelog"),
        (AFTER, ["delay-delays-changelog"], "Changelogs of this installation: none"),
        (OTHERS[2], ["delay-p24-delays-changelog"], "Changelogs of this installation: delay-p24-delays-changelog"),
    ],
)
def test_no_empty_changelog_is_created_next_to_another(settings: Settings, there: list[str], what: str) -> None:
    with pytest.raises(TopicMismatch, match=re.escape(what)):
        _assure_changelog(settings.topics, there)


@pytest.mark.parametrize(
    ("settings", "there"),
    [
        (BEFORE, []),
        (BEFORE, ["delay-delays-changelog", "delay-p24-delays-changelog"]),
        (AFTER, ["delay-delays-changelog", "delay-p24-delays-changelog"]),
        (BEFORE, ["other-p24-delays-changelog"]),
    ],
)
def test_a_new_installation_begins_with_an_empty_one(settings: Settings, there: list[str]) -> None:
    _assure_changelog(settings.topics, there)


def test_late_records_of_an_earlier_run_do_not_count() -> None:
    first, second, third = (msgspec.structs.replace(layout("copying"), run=run) for run in (1, 2, 3))
    assert later(None, first) is first
    assert later(first, second) is second
    assert later(third, second) is third
    done = msgspec.structs.replace(second, stage="done")
    assert later(second, done) is done
