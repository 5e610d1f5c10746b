"""`rlstack view`: options and entry point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro


@dataclass(frozen=True)
class View:
    """Show the robots of the ROS domain in a browser: simulated ones, real ones, or a recording that is played.

    It prints the address to open, and takes goals, arming and emergency stops from there. Ctrl-C ends it.
    """

    robot: Annotated[tuple[str, ...], tyro.conf.arg(aliases=["--namespace"], metavar="NAME ...")] = ()
    """Namespaces of the robots to show; default: all."""
    host: str = "127.0.0.1"
    """Address that browsers reach; 0.0.0.0: from other machines too, with the token that is part of the address."""
    port: int = 8080
    """Port; the next free one if it is in use."""
    token: str = ""
    """What a browser must know; default: nothing on this machine, else a random one."""
    rate: Annotated[float, tyro.conf.arg(metavar="HZ")] = 30.0
    """Rate at which robots move in the browser, Hz."""

    def run(self) -> int:
        """Run the view node in this process."""
        from rlstack.nodes.runtime import run_nodes
        from rlstack.nodes.view import ViewNode

        robots = tuple(f"/{name.strip('/')}" for name in self.robot)
        given = {"host": self.host, "port": self.port, "token": self.token, "rate_hz": self.rate, "robots": robots}
        return run_nodes(lambda: ViewNode(given), [])
