"""`rlstack explain`: options and entry point."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from rlstack.files import check_folder, write_atomically
from rlstack.progress import working


@dataclass(frozen=True)
class Explain:
    """Say why a recorded robot did what it did.

    Runs the policy again on the recorded inputs and compares its commands with the recorded ones; measures the inputs'
    delay, rate and gaps against what the policy is proven for; tells what the guard did and why, where the run left the
    training, and which inputs mattered. Writes a page with the run in 3D.

    Exit status: 0 the commands are the policy file's, 1 some differ or none could be compared.
    """

    bag: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="BAG")]]
    """The recording's folder, or one of its files (`rlstack up deploy --record`)."""
    policy: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """The policy file that ran; default: found by its SHA-256 among the released ones and in runs/."""
    robot: Annotated[str, tyro.conf.arg(aliases=["--namespace"], metavar="NAMESPACE")] = ""
    """The robot's namespace, if the bag has several with policies."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """The page; default: BAG-explained.html beside the bag."""
    no_page: bool = False
    """Write no page."""
    json: bool = False
    """Print JSON."""

    def run(self) -> int:
        """Print the explanation, and write its page."""
        from rlstack.bringup.explain.explanation import explain
        from rlstack.bringup.explain.page import render
        from rlstack.bringup.explain.recorded_run import read_run
        from rlstack.bringup.explain.text import text_of

        bag = self.bag.absolute()
        out = self.out or bag.with_name(f"{bag.stem}-explained.html")
        if not self.no_page:
            check_folder(out.parent, "--out")
        with working(f"explaining {self.bag}"):
            found = explain(read_run(self.bag, robot=self.robot, policy=self.policy))
        print(json.dumps(found.to_json(), indent=2) if self.json else text_of(found), flush=True)
        if not self.no_page:
            with working("drawing the page"):
                write_atomically(out, render(found), what="the page")
            if not self.json:
                print(f"\npage    {out}", flush=True)
        return 0 if found.is_faithful and found.rerun.compared else 1
