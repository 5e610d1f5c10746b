from __future__ import annotations

import subprocess
import sys

import pytest

from rlstack import cli
from rlstack.bringup.robot_commands.estop import parser


def test_all_robots_are_meant_unless_some_are_named() -> None:
    assert parser().parse_args([]).robot == []
    assert parser().parse_args(["--robot", "cf1", "/fleet/cf2"]).robot == ["cf1", "/fleet/cf2"]
    assert parser().parse_args(["--namespace", "/cf1"]).robot == ["/cf1"]


def test_it_loads_only_what_the_stop_needs() -> None:
    code = (
        "import sys; from rlstack.cli import VERBS; VERBS['estop'].action;"
        "print(sorted({'tyro', 'numpy', 'onnx', 'onnxruntime', 'rlstack.robots', 'rlstack.schema'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_an_unknown_option_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["estop", "cf1"])
    assert ended.value.code == 2 and "unrecognized arguments: cf1" in capsys.readouterr().err
