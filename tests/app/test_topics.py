"""The topics that there must be."""

from app.settings import Settings
from app.topics import plan


def test_there_need_be_no_cold_topic() -> None:
    assert "delay-cold" not in plan(Settings.from_env({}))
    assert "delay-cold" in plan(Settings.from_env({}), cold=True)


def test_what_is_held_is_parked_and_the_topic_takes_it() -> None:
    topics = plan(Settings.from_env({}), 5_000_000, cold=True)

    assert topics["delay-cold"][0] == topics["delay-delays-changelog"][0]
    assert topics["delay-cold"][1]["max.message.bytes"] == topics["delay-delays-changelog"][1]["max.message.bytes"]
