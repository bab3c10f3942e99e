"""The command line."""

from pathlib import Path

import pytest

from benchmarks.experiments import NAMES, USUAL, baselines
from benchmarks.options import Options, parse
from benchmarks.result import DIRECTORY
from benchmarks.sizes import FULL, SHORT

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "measure.md"


def test_by_default_the_common_figures_are_measured_once_in_the_short_form() -> None:
    assert parse([]) == Options(USUAL, SHORT, 1, None, None)


def test_the_full_form_measures_everything() -> None:
    assert parse(["--full"]) == Options(NAMES, FULL, 1, None, None)


def test_only_takes_several_names() -> None:
    assert parse(["--only", "drain", "--only", "mixed"]).only == ("drain", "mixed")
    assert parse(["--only", "drain,mixed", "--only", "drain"]).only == ("drain", "mixed")


def test_only_accepts_one_name_for_other_systems_and_their_comparisons() -> None:
    assert parse(["--only", "baselines,workers"]).only == (*baselines.NAMES, "workers")
    assert set(parse(["--only", "beside"]).only) == {*baselines.NAMES, "workers", "exactly-once"}


def test_workers_take_the_available_path_unless_one_or_both_are_requested() -> None:
    assert parse([]).kernels == (None,)
    assert parse(["--kernel", "on"]).kernels == ("on",)
    assert parse(["--kernel", "both"]).kernels == ("off", "on")


def test_results_go_into_the_repository_unless_told_otherwise(tmp_path: Path) -> None:
    assert parse(["--save"]).save == DIRECTORY
    assert parse(["--save", str(tmp_path)]).save == tmp_path


def test_the_lead_changes_and_the_rest_of_the_sizes_stays() -> None:
    sizes = parse(["--full", "--lead", "45"]).sizes

    assert (sizes.lead_s, sizes.backlog) == (45, FULL.backlog)


@pytest.mark.parametrize(
    "wrong",
    [["--only", "nothing"], ["--only", "drain,"], ["--kernel", "perhaps"], ["--runs", "0"], ["--full", "--smoke"]],
)
def test_nonsense_ends_with_code_2(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(wrong)

    assert ended.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_the_how_to_names_every_experiment_and_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"])
    offered = {word.strip("[],") for word in capsys.readouterr().out.split() if word.strip("[],").startswith("--")}
    text = HOW_TO.read_text("utf-8")

    assert not [word for word in (*offered - {"--help"}, *NAMES) if f"`{word}" not in text]
