"""`rlstack runs`: what it says of folders as training leaves them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlstack import cli
from rlstack.training import remote_runs


def write_run(folder: Path, name: str, seed: int, success: float, ended: bool = True) -> None:
    folder.mkdir(parents=True)
    (folder / "recipe.yaml").write_text(f"name: {name}\ntask: quadrotor_hover\nrobot: crazyflie\nseed: {seed}\n")
    if ended:
        rows = [{"step": 100, "success": success / 2}, {"step": 200, "success": success}]
        figures = {"finished": True, "steps": 200, "seconds": 61.4, "evaluation": rows[-1], "evaluations": rows}
        (folder / "training.json").write_text(json.dumps(figures))


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for seed, success in enumerate((0.5, 0.6, 0.7, 0.8)):
        write_run(tmp_path / "runs" / f"plain-{seed}", "plain", seed, success)
        write_run(tmp_path / "runs" / f"tuned-{seed}", "tuned", seed, success + 0.15)
    write_run(tmp_path / "runs" / "tuned-9", "tuned", 9, 0.0, ended=False)
    return tmp_path / "runs"


def test_runs_are_listed_with_those_that_have_not_ended(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["runs", "list", "--json", "list.json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10 and lines[0].split()[:2] == ["run", "name"]
    assert lines[1].split()[:4] == ["runs/plain-0", "plain", "quadrotor_hover", "crazyflie"]
    assert lines[1].split()[-4:] == ["200", "50.0%", "61", "yes"]
    assert lines[-1].endswith("not yet")
    assert len(json.loads(Path("list.json").read_text())) == 9


def test_groups_are_compared_over_seeds(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["runs", "compare"]) == 0
    _, plain, tuned = capsys.readouterr().out.splitlines()
    assert plain.split()[:3] == ["plain", "4", "0.65"] and plain.endswith("-")
    assert tuned.split()[:3] == ["tuned", "4", "0.8"]
    assert "81% [" in tuned, "13 of 16 pairs are better"
    words = ["--group", "one=runs/plain-*", "two=runs/tuned-0,runs/tuned-1", "--lower", "--json", "figures.json"]
    assert cli.main(["runs", "compare", *words]) == 0
    assert "intervals say nothing" in capsys.readouterr().out
    figures = json.loads(Path("figures.json").read_text())
    assert figures["two"]["runs"] == 2 and figures["two"]["better"]["value"] < 0.5


@pytest.mark.parametrize(("name", "start"), [("curves.png", b"\x89PNG"), ("curves.svg", b"<?xml")])
def test_curves_are_drawn(name: str, start: bytes, runs: Path) -> None:
    assert cli.main(["runs", "plot", "--out", name]) == 0
    assert Path(name).read_bytes().startswith(start)


def test_profiles_are_drawn(runs: Path) -> None:
    words = ["--group", "plain=runs/plain-*", "tuned=runs/tuned-?"]
    assert cli.main(["runs", "plot", "--profile", "--out", "profile.svg", *words]) == 0
    assert Path("profile.svg").read_text().count("<path") > 10


@pytest.mark.parametrize("out", ["figures.parquet", "memory://figures.parquet"])
def test_every_figure_is_exported_with_what_it_took(out: str, runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    import fsspec

    file = runs / "plain-0" / "training.json"
    made = {"versions": {"rlstack": "0.1.0"}, "cores": 4, "processor": "some"}
    file.write_text(json.dumps({**json.loads(file.read_text()), "machine": made}))
    assert cli.main(["runs", "export", "--out", out]) == 0
    assert "48 figures" in capsys.readouterr().out  # of 8 runs: two evaluations, the best's two, seconds and steps
    with fsspec.open(out if "://" in out else str(Path(out).absolute()), "rb") as opened:
        rows = parquet.read_table(opened).to_pylist()
    mine = [row for row in rows if row["run"] == "runs/plain-0"]
    assert [(row["of"], row["step"], row["figure"], row["value"]) for row in mine] == [
        ("evaluation", 100.0, "success", 0.25),
        ("evaluation", 200.0, "success", 0.5),
        ("best", 200.0, "step", 200.0),
        ("best", 200.0, "success", 0.5),
        ("run", 200.0, "seconds", 61.4),
        ("run", 200.0, "steps", 200.0),
    ]
    assert (mine[0]["rlstack"], mine[0]["cores"], mine[0]["seed"]) == ("0.1.0", 4, 0)
    assert json.loads(mine[0]["recipe"])["robot"] == "crazyflie"


def test_runs_in_an_object_store_are_read_as_those_of_a_folder(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import fsspec

    (runs / "plain-0" / "checkpoint.pt").write_bytes(b"large")
    store = fsspec.filesystem("memory")
    store.put(str(runs), "/bucket/runs", recursive=True)
    try:
        assert cli.main(["runs", "list", "memory://bucket/runs", "--json", "list.json"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 10 and lines[1].split()[0] == "memory:///bucket/runs/plain-0"
        assert lines[1].split()[-4:] == ["200", "50.0%", "61", "yes"]
        assert json.loads(Path("list.json").read_text())[0]["folder"] == "memory:///bucket/runs/plain-0"
        assert not [file for copy in remote_runs._COPIES for file in Path(copy.name).rglob("checkpoint.pt")]
        assert cli.main(["runs", "compare"]) == 0
        here = capsys.readouterr().out
        words = ["plain=memory://bucket/runs/plain-0,memory://bucket/runs/plain-1", "tuned=runs/tuned-*"]
        assert cli.main(["runs", "compare", "memory://bucket/runs"]) == 0
        assert capsys.readouterr().out == here
        assert cli.main(["runs", "compare", "--group", *words, "--json", "figures.json"]) == 0
        assert {name: one["runs"] for name, one in json.loads(Path("figures.json").read_text()).items()} == {
            "plain": 2,
            "tuned": 4,
        }
        assert cli.main(["runs", "export", "memory://bucket/runs", "--out", "there.parquet"]) == 0
        assert cli.main(["runs", "plot", "memory://bucket/runs", "--out", "curves.svg"]) == 0
    finally:
        store.rm("/bucket", recursive=True)


def test_scalars_of_tensorboard_are_exported_once(runs: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    for purge, steps in ((None, (100, 200, 300)), (201, (300, 400))):  # the second goes on from a checkpoint
        with tensorboard.SummaryWriter(str(runs / "plain-1"), purge_step=purge) as writer:
            for step in steps:
                writer.add_scalar("loss/critic", step / 100.0, step)
    assert cli.main(["runs", "export", "--out", "figures.parquet"]) == 0
    plain = parquet.read_table("figures.parquet").num_rows
    assert cli.main(["runs", "export", "--scalars", "--out", "figures.parquet"]) == 0
    rows = parquet.read_table("figures.parquet").to_pylist()
    mine = [row for row in rows if row["of"] == "scalar"]
    assert len(rows) == plain + 4
    assert [(row["run"], row["figure"], row["step"], row["value"]) for row in mine] == [
        ("runs/plain-1", "loss/critic", float(step), step / 100.0) for step in (100, 200, 300, 400)
    ]
    assert mine[0]["cpu_seconds"] is None and json.loads(mine[0]["recipe"])["seed"] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["export", "--out", "figures.csv"], "must end in .parquet"),
        (["export", "--out", "nowhere://figures.parquet"], "cannot be written"),
        (["list", "nowhere"], "There is no folder nowhere"),
        (["list", "memory://nowhere"], "No run is in memory://nowhere"),
        (["list", "nowhere://bucket"], "nowhere://bucket cannot be read"),
        (["compare", "--figure", "speed"], "Figures: step, success"),
        (["compare", "--group", "plain"], "give NAME=FOLDERS"),
        (["compare", "--group", "x=runs/none-*"], "matches no folder"),
        (["plot", "--out", "curves.pdf"], "must end in .png or .svg"),
        (["plot", "--figure", "speed"], "No run has evaluations"),
    ],
)
def test_bad_input(words: list[str], said: str, runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["runs", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_folder_without_runs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["runs", "list", str(tmp_path)]) == 2
    assert "`rlstack train RECIPE` makes one" in capsys.readouterr().err
