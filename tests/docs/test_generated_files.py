"""Generated files are up to date, and CONTRIBUTING lists them."""

from pathlib import Path

import pytest

from tests.docs import generated


@pytest.mark.parametrize("path", generated.files(), ids=str)
def test_a_generated_file_is_up_to_date(path: Path) -> None:
    is_current = (generated.TREE / path).read_text("utf-8") == generated.files()[path]

    assert is_current, f"{path} is out of date. Run `make format`, and commit the file."


def test_a_file_that_is_out_of_date_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generated, "TREE", tmp_path)
    monkeypatch.setattr(generated, "files", lambda: {Path("new.md"): "new", Path("same.md"): "same"})
    (tmp_path / "new.md").write_text("old")
    (tmp_path / "same.md").write_text("same")

    generated.main()

    assert (tmp_path / "new.md").read_text() == "new"
    assert capsys.readouterr().out == "new.md\n"


def test_contributing_lists_every_generated_file() -> None:
    text = (generated.TREE / "CONTRIBUTING.md").read_text("utf-8")

    assert not [str(path) for path in generated.files() if f"`{path}`" not in text and f"`{path.parent}`" not in text]
