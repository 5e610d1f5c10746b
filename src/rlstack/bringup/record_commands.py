"""`rlstack record`, `rlstack play` and `rlstack info`: options and entry points."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from rlstack.errors import UserError
from rlstack.files import check_folder, write_atomically

_Bag = tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="BAG")]]


@dataclass(frozen=True)
class Record:
    """Record robots of the ROS domain into a bag that `ros2 bag` reads; Ctrl-C ends it.

    In it are the robots' topics, what their policies see and say and what their guards let through, the nodes'
    parameters, the robot files, and the policies' contracts and SHA-256. A recording that is killed is readable up to
    its last half second.
    """

    out: Annotated[str, tyro.conf.arg(metavar="FOLDER")] = ""
    """The bag's folder, which must not exist yet; default: recordings/ and the time."""
    robot: Annotated[tuple[str, ...], tyro.conf.arg(aliases=["--namespace"], metavar="NAME ...")] = ()
    """Namespaces of the robots to record; default: all."""
    topics: Annotated[tuple[str, ...], tyro.conf.arg(metavar="TOPIC ...")] = ()
    """Topics to record besides what policies see and say and what guards do, such as odom or /map, with wildcards (*);
    default: everything of the robots, /clock and /tf, but no pictures."""
    pictures: bool = False
    """Record pictures and cameras' point clouds, too; those that a policy sees always are."""
    compression: Literal["zstd", "lz4", "none"] = "zstd"
    """Compression of the bag."""
    split_mib: Annotated[int, tyro.conf.arg(metavar="MIB")] = 2048
    """Begin another file at this size; 0: never."""
    split_s: Annotated[float, tyro.conf.arg(metavar="SECONDS")] = 3600.0
    """Begin another file after this time; 0: never."""
    seconds: Annotated[float, tyro.conf.arg(metavar="SECONDS")] = 0.0
    """End after this time; default: with Ctrl-C."""

    def run(self) -> int:
        """Run the recording node in this process."""
        from rlstack.bringup.record_process import recording_folder
        from rlstack.nodes.record import RecordProcess
        from rlstack.nodes.runtime import run_nodes

        out = recording_folder(self.out)
        given = {
            "out": str(out),
            "robots": tuple(f"/{name.strip('/')}" for name in self.robot),
            "topics": self.topics,
            "pictures": self.pictures,
            "compression": self.compression,
            "split_mib": self.split_mib,
            "split_s": self.split_s,
            "seconds": self.seconds,
        }
        print(f"Recording into {out}.", flush=True)
        return run_nodes(lambda: RecordProcess(given), [])


@dataclass(frozen=True)
class Play:
    """Publish what a bag holds on the same topics, and /clock; messages keep their stamps.

    `rlstack view` beside it shows the robot. A topic that a live robot publishes, or a command that one would obey, is
    refused unless it is named with --topics.
    """

    bag: _Bag
    """The bag's folder, or one of its files; also one of a recorder that was killed."""
    rate: float = 1.0
    """How much faster than it was recorded."""
    start: Annotated[float, tyro.conf.arg(name="from", metavar="SECONDS")] = 0.0
    """Where to begin, after the first message."""
    until: Annotated[float, tyro.conf.arg(metavar="SECONDS")] = 0.0
    """Where to end, likewise; default: at the last message."""
    topics: Annotated[tuple[str, ...], tyro.conf.arg(metavar="TOPIC ...")] = ()
    """Topics to play, such as /crazyflie/odom or odom; default: all."""
    remap: Annotated[tuple[str, ...], tyro.conf.arg(metavar="FROM:=TO ...")] = ()
    """Other names for topics or namespaces, such as /crazyflie:=/replay."""

    def run(self) -> int:
        """Run the playing node in this process."""
        from rlstack.nodes.play import PlayNode
        from rlstack.nodes.runtime import run_nodes

        given = {
            "bag": str(self.bag),
            "rate": self.rate,
            "from_s": self.start,
            "until_s": self.until,
            "topics": self.topics,
            "remap": self.remap,
        }
        return run_nodes(lambda: PlayNode(given), [])


@dataclass(frozen=True)
class Info:
    """Describe a bag: topics, rates, lost messages, policy, and where a damaged one ends.

    Exit status: 0 it is complete, 1 it was cut off or is damaged.
    """

    bag: _Bag
    """The bag's folder, or one of its files."""
    check: bool = False
    """Read every message, which finds damage that the index does not tell of."""
    json: bool = False
    """Print JSON."""
    extract: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """Write what is attached into a new folder: robot files, contracts, parameters."""

    def run(self) -> int:
        """Print it."""
        from rlstack.data.bags.bag import Bag
        from rlstack.data.bags.bag_info import bag_info, described

        with Bag(self.bag) as bag:
            info = bag_info(bag, check=self.check)
            print(json.dumps(info, indent=2) if self.json else described(info), flush=True)
            if self.extract is not None:
                extract(bag.attachments, self.extract)
        return 1 if info["damage"] else 0


def extract(attachments: dict[str, bytes], folder: Path) -> None:
    """Write attachments into a new folder.

    Raises:
        UserError: It exists, or cannot be written.
    """
    if folder.exists():
        raise UserError(f"--extract: {folder} exists already: give a folder that does not exist yet.")
    check_folder(folder, "--extract")
    for name, data in attachments.items():
        parts = [part for part in name.split("/") if part not in ("", ".", "..")]
        if parts:
            write_atomically(folder.joinpath(*parts), data)
