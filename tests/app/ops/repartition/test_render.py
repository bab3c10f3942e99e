"""What people read of a change."""

import json

from app.ops.repartition import command
from app.ops.repartition.run import RunReport

DONE = RunReport(
    state="done",
    before=16,
    after=24,
    changelog="delay-p24-delays-changelog",
    rows=1_000,
    moved=600,
    under_way=3,
    destinations={"orders": 990, "": 10},
    partitions=[40, 42],
    seconds={"copy": 0.5},
)


def test_people_see_the_result_and_the_settings_to_change() -> None:
    said = command.table(DONE)
    assert "1,000 messages, 600 of them to another partition; 40 to 42 in each" in said
    assert "990 for orders" in said
    assert "10 for (callbacks)" in said
    assert "2,000 messages per second in total" in said
    assert said.endswith("Start all workers with DELAY_PARTITIONS=24 and DELAY_REPARTITIONED=on.")


def test_obstacles_are_listed() -> None:
    said = command.table(
        RunReport(state="not ready", before=16, after=24, changelog="", hindrances=["stop the workers"])
    )
    assert said == "from 16 to 24 partitions: not ready\n! stop the workers"


def test_an_abandoned_run_reports_the_valid_settings() -> None:
    said = command.table(RunReport(state="abandoned", before=16, after=24, changelog="delay-delays-changelog"))
    assert said == "abandoned: 16 partitions and delay-delays-changelog, as before"


def test_programs_get_the_whole_report() -> None:
    assert json.loads(command.as_json(DONE))["destinations"] == {"orders": 990, "": 10}
