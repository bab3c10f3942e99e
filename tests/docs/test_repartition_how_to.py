"""The commands of docs/how-to/repartition.md are those of tests/integration/test_repartition.py, with its options."""

import re
import shlex

from app.ops.repartition.command import repartition
from app.ops.repartition.run import RunReport
from app.settings.settings import Settings
from tests.docs.how_to import blocks
from tests.harness.worker import ROOT

SHELL = [line for kind, text in blocks("repartition.md") if kind == "sh" for line in text.splitlines()]


def test_its_commands_are_taken() -> None:
    asked = [shlex.split(line) for line in SHELL if line.startswith("faust")]
    assert [words[:4] for words in asked] == [["faust", "-A", "app", "repartition"]] * 3
    given = [repartition.make_context("repartition", words[4:]).params for words in asked]
    assert [(one["after"], one["dry_run"], one["abandon"]) for one in given] == [
        (24, True, False),
        (24, False, False),
        (24, False, True),
    ]


def test_its_settings_are_those_of_the_new_number() -> None:
    env = dict(line.removeprefix("export ").split("=") for line in SHELL if line.startswith("export"))
    assert Settings.from_env(env).topics.changelog == "delay-p24-delays-changelog"


def test_it_names_what_programs_get() -> None:
    page = (ROOT / "docs/how-to/repartition.md").read_text("utf-8")
    [table] = re.findall(r"`--format json` prints one object:\n\n((?:\|.*\n)+)", page)
    fields = " ".join(line.split("|")[1] for line in table.splitlines())
    assert set(re.findall(r"`(\w+)`", fields)) == set(RunReport.__struct_fields__)
