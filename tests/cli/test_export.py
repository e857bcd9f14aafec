"""Output paths are checked before anything is measured; files are whole or absent."""

import pytest
from click.testing import CliRunner

from suite import export
from suite.cli import app
from suite.exits import Stop
from suite.journal import save_run


def test_dash_and_new_and_existing_files_are_fine(tmp_path):
    assert export.checked_target("-") == "-"
    assert export.checked_target(str(tmp_path / "new.json")) == str(tmp_path / "new.json")
    (tmp_path / "old.json").write_text("old")
    assert export.checked_target(str(tmp_path / "old.json")) == str(tmp_path / "old.json")
    assert (tmp_path / "old.json").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["old.json"]


@pytest.mark.parametrize(
    "wrong", ["missing/x.json", "folder", "/proc/x.json", "/dev/full", "/dev/null", "file/x"]
)
def test_unusable_targets_are_refused_by_name(tmp_path, wrong, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=wrong.replace("/", "."), check=lambda e: "\n" not in str(e)):
        export.checked_target(wrong)


def test_a_link_is_written_through(tmp_path):
    real = tmp_path / "real.json"
    real.write_text("")
    (tmp_path / "link.json").symlink_to(real)
    assert export.checked_target(str(tmp_path / "link.json")) == str(real)


def test_one_failed_target_does_not_keep_the_others(tmp_path):
    gone = tmp_path / "gone"
    targets = {"json": str(gone / "a.json"), "csv": str(tmp_path / "b.csv"), "svg": None}
    with pytest.raises(Stop, match=r"json could not be written to .*a\.json"):
        export.write_all(targets, {"json": lambda: b"{}", "csv": lambda: b"x"})
    assert (tmp_path / "b.csv").read_bytes() == b"x"


def test_a_report_does_not_overwrite_the_run_it_reads(tmp_path, scripted_run):
    save_run(tmp_path / "run.json", scripted_run)
    before = (tmp_path / "run.json").read_bytes()
    words = ["report", str(tmp_path / "run.json"), "--export-csv", str(tmp_path / "run.json")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert "the run read and csv both go to" in result.stderr
    assert (tmp_path / "run.json").read_bytes() == before
