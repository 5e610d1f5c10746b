"""The command `rlstack import`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

_File = Annotated[Path, tyro.conf.arg(metavar="FILE")]


@dataclass(frozen=True)
class Import:
    """Make a policy file of a policy that was trained elsewhere.

    A mapping file says which signals make the network's observation, in which order, frame and scale, and what its
    actions mean on the robot (docs/import.md). The policy file is compared with the original before it is written:
    on a recording, if one is given, else on 1,000 random inputs. The file is read as numbers: no code in it is run.
    """

    source: tyro.conf.Positional[_File]
    """The trained policy: rsl_rl's model_<n>.pt, stable-baselines3's .zip, skrl's agent_<n>.pt, a LEAPP bundle's YAML
    file, a folder of LeRobot's ACT, or an .onnx file."""
    from_: Annotated[str, tyro.conf.arg(name="from", metavar="SOURCE")]
    """Where it comes from: rsl_rl, stable_baselines3, skrl, leapp, lerobot_act or onnx."""
    map: _File
    """The mapping, YAML."""
    robot: str
    """The robot's name or file."""
    out: _File
    """The policy file to write; replaced if it exists."""
    recorded: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Recorded inputs of one episode (.npz: every input by its name; `observation` and `action` as the original had
    them). They prove the mapping, which random inputs cannot."""

    def run(self) -> int:
        """Import, and print what was compared."""
        from rlstack.importers import SOURCES
        from rlstack.libraries import import_library
        from rlstack.progress import AFTER_S, StageLines, working
        from rlstack.robots import load_robot

        import_library("torch", "train")
        from rlstack.importers.fit import fitted
        from rlstack.importers.mapping import read_mapping, resolve
        from rlstack.importers.policy import import_policy

        robot = load_robot(self.robot)
        mapping = read_mapping(self.map)
        plan = resolve(mapping, robot, str(self.map))
        with working(f"reading {self.source}"):
            network = SOURCES.load(self.from_)(self.source, mapping.network, self.map.parent)
            plan = fitted(plan, network, f"{self.map} for {self.source}")
        lines = StageLines(after_s=AFTER_S)
        contract, parity = import_policy(plan, network, robot, self.source, self.from_, self.out, self.recorded, lines)
        print(f"{self.out}: {contract.name}, for {robot.name} at {contract.rate_hz:g} Hz")
        print(f"  inputs  {', '.join(port.name for port in contract.inputs)}")
        print(f"  output  {plan.action.signal}")
        kind = "recorded" if parity.recorded else "random"
        print(f"  parity  {parity.difference:.1e} of the command's range over {parity.steps} {kind} steps")
        if parity.observation is None:
            print("  The mapping itself is unproven: --recorded with `observation` compares it with the original's.")
        else:
            print(f"  mapping {parity.observation:.1e} from the recorded observations")
        print(f"Next: rlstack verify {self.out}")
        return 0
