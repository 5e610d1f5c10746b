import io

from rlstack.bringup.progress_lines import ProgressLines
from rlstack.verification.schedule import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(stream, progresses):
    now = [0.0]
    lines = ProgressLines(stream, lambda: now[0])
    for progress in progresses:
        now[0] = progress.elapsed_s
        lines(progress)
    lines.end()
    return stream.getvalue()


def test_the_estimate_is_said_once_after_the_first_trials():
    text = shown(io.StringIO(), [Progress("batch", k, 10, float(k), 100.0 - k) for k in range(1, 8)])
    assert text.splitlines()[0] == "This takes about 1:40 min, as the first trials show."
    assert text.count("This takes") == 1 and "batch: 2/10, 2 s so far, about 1:38 min left" in text


def test_without_a_terminal_there_is_a_line_now_and_then():
    lines = shown(io.StringIO(), [Progress("mujoco", k, 100, float(k), 50.0) for k in range(0, 41)]).splitlines()
    assert len(lines) == 5 and lines[-1].startswith("mujoco: 32/100")


def test_without_a_terminal_each_part_has_a_line_when_it_begins():
    parts = [Progress(part, k, 2, 3.0 + k, 50.0) for part in ("batch", "plots") for k in range(2)]
    lines = shown(io.StringIO(), parts).splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == ["batch: 0/2", "plots: 0/2"]


def test_in_a_terminal_one_line_changes():
    text = shown(Terminal(), [Progress("mujoco", k, 100, 2.0 + k, 50.0) for k in range(5)])
    assert text.count("\n") == 2 and text.count("\rmujoco") == 5 and text.endswith("\n")


def test_in_a_terminal_trials_that_end_at_once_are_one_change():
    text = shown(Terminal(), [Progress("batch", k, 100, 2.0 + 0.001 * k, 50.0) for k in range(101)])
    assert text.count("\rbatch") == 2 and "\rbatch: 100/100" in text


def test_in_a_narrow_terminal_it_is_still_one_line(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    text = shown(Terminal(), [Progress("mujoco (topics)", 10, 100, 200.0, 500.0)])
    assert len(text.splitlines()[-1].strip("\r")) < 40 and "\rmujoco (topics): 10/100, 3:20 min so" in text
