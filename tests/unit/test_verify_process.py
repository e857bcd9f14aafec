"""No program that the hardware run starts is left behind: not its children, nor what has left its group."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from suite import verify_process, verify_state
from suite.verify_state import Context, Failed, OutOfTime, State

ROOT = Path(__file__).parents[2]

FAMILY = """
import os, subprocess, sys, time
forever = [sys.executable, "-c", "import time; time.sleep(120)"]
inside = subprocess.Popen(forever)
outside = subprocess.Popen(forever, start_new_session=True)
with open(sys.argv[1] + "/%d" % os.getpid(), "w") as file:
    print(os.getpid(), inside.pid, outside.pid, file=file, flush=True)
if sys.argv[2] == "stay":
    time.sleep(120)
if sys.argv[2] == "leave":
    outside.kill()
"""
"""A program with a child in its group and one in a group of its own, which says who they are."""


def family(folder, fate="stay"):
    return [sys.executable, "-c", FAMILY, str(folder), fate]


def known(folder, families=1):
    """The processes of so many families, once all of them are there."""
    due = time.monotonic() + 30
    while time.monotonic() < due:
        found = [int(word) for path in folder.iterdir() for word in path.read_text().split()]
        if len(found) == 3 * families:
            return found
        time.sleep(0.05)
    pytest.fail(f"{folder} names {found}")


def alive(pids):
    """Those that are running; a zombie waits for its parent only."""
    return [
        pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    ]


def gone(pids):
    due = time.monotonic() + 10
    while alive(pids) and time.monotonic() < due:
        time.sleep(0.05)
    return not alive(pids)


@pytest.fixture
def folder(tmp_path):
    """Where families say who they are; none outlives the test."""
    found = tmp_path / "pids"
    found.mkdir()
    yield found
    for pid in alive([int(word) for path in found.iterdir() for word in path.read_text().split()]):
        os.kill(pid, signal.SIGKILL)


def test_a_program_is_ended_with_its_whole_family_when_the_budget_ends(tmp_path, folder):
    c = Context(tmp_path, State(), budget_s=3.0)
    with pytest.raises(OutOfTime):
        c.run(family(folder))
    assert gone(known(folder))


def test_what_a_program_leaves_behind_is_ended_with_it(tmp_path, folder):
    start = time.monotonic()
    assert Context(tmp_path, State()).run(family(folder, "leave")).returncode == 0
    assert gone(known(folder)) and time.monotonic() - start < 60, "nor is it waited for"


def test_a_program_may_end_by_itself_when_it_is_asked_to(tmp_path):
    script = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit('kept'))"
    c = Context(tmp_path, State(), budget_s=4.0)
    with pytest.raises(OutOfTime):
        c.python("-c", f"{script}; time.sleep(60)")
    assert "kept\n[exit -1]" in (tmp_path / "log.txt").read_text()


def test_one_that_will_not_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(verify_process, "GRACE_S", 0.3)
    script = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    script += "print(os.getpid(), flush=True)"
    c = Context(tmp_path, State(), budget_s=4.0)
    with pytest.raises(OutOfTime):
        c.python("-c", f"{script}; time.sleep(60)")
    pid = int((tmp_path / "log.txt").read_text().splitlines()[1])
    assert gone([pid])


def test_much_output_on_both_sides_is_kept_whole(tmp_path):
    script = "import sys; [print('x' * 99, file=f) for f in (sys.stdout, sys.stderr) for _ in range(9000)]"
    done = Context(tmp_path, State()).python("-c", script)
    assert len(done.stdout) == len(done.stderr) == 900_000


def test_a_watcher_is_told_while_the_program_runs(tmp_path):
    told = []
    script = "import time; print('first', flush=True); time.sleep(1.5); print('second')"
    done = Context(tmp_path, State()).run([sys.executable, "-c", script], watch=told.append)
    assert told[0] == "first\n" and done.stdout == "first\nsecond\n"


class TestTogether:
    def test_programs_run_side_by_side_and_answer_in_order(self, tmp_path):
        c = Context(tmp_path, State())
        script = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch()\n"
        script += "while not pathlib.Path(sys.argv[2]).exists(): time.sleep(0.05)\nprint(sys.argv[3])"
        a, b = str(tmp_path / "a"), str(tmp_path / "b")
        done = c.together(
            [lambda: c.python("-c", script, a, b, "one"), lambda: c.python("-c", script, b, a, "two")]
        )
        assert [d.stdout for d in done] == ["one\n", "two\n"]
        assert (tmp_path / "log.txt").read_text().count("[exit 0]") == 2

    def test_all_end_before_a_fault_is_raised(self, tmp_path):
        ended = []

        def slow():
            time.sleep(0.3)
            ended.append("slow")

        def raising(error):
            raise error

        tasks = [slow, lambda: raising(OutOfTime("late")), lambda: raising(Failed("broken"))]
        with pytest.raises(Failed, match="broken"):
            Context(tmp_path, State()).together(tasks)
        assert ended == ["slow"]

    def test_programs_of_all_end_with_the_budget(self, tmp_path, folder):
        c = Context(tmp_path, State(), budget_s=4.0)
        with pytest.raises(OutOfTime):
            c.together([lambda: c.run(family(folder))] * 3)
        assert gone(known(folder, 3))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("families", [1, 2])
def test_an_interrupted_run_leaves_no_program_behind(tmp_path, folder, how, families):
    """The signal comes to `verify` alone, as from `kill`; that of a terminal does no more."""
    command = family(folder)
    run = f"c.together([lambda: c.run({command!r})] * {families})" if families > 1 else f"c.run({command!r})"
    script = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from suite import cli\nfrom suite.experiments import verify\n"
        f"verify.all_steps = lambda *_: {{'build': (lambda c: {run}, ())}}\n"
        "cli.main()\n"
    )
    words = [sys.executable, "-c", script, "verify", "--out", str(tmp_path / "out"), "--steps", "build"]
    running = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    pids = known(folder, families)
    running.send_signal(how)
    text, _ = running.communicate(timeout=30)
    assert running.returncode == 130 and "interrupted: what is done is kept in out" in text, text
    assert gone(pids)


def test_lines_written_by_many_at_once_are_all_there(tmp_path):
    script = (
        "import sys; from suite.verify_state import Kept\nfrom pathlib import Path\n"
        "for i in range(500): Kept(Path(sys.argv[1])).append([{'who': sys.argv[2], 'i': i, 'x': 'x' * 300}])"
    )
    path = tmp_path / "kept"
    words = [sys.executable, "-c", script, str(path)]
    running = [subprocess.Popen([*words, str(who)], cwd=ROOT) for who in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    lines = [(line["who"], line["i"]) for line in verify_state.Kept(path).read()]
    assert sorted(lines) == sorted((str(who), i) for who in range(4) for i in range(500))


def test_a_torn_line_takes_no_other_with_it(tmp_path):
    kept = verify_state.Kept(tmp_path / "kept")
    kept.append([{"a": 1}])
    with kept.path.open("a") as file:
        file.write('{"torn": "a')
    kept.append([{"b": 2}])
    assert kept.read() == [{"a": 1}, {"b": 2}]
