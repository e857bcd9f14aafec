"""Output paths are checked before anything is measured; files are whole or absent."""

import pytest

from suite import export
from suite.exits import Stop


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
