"""Build Nav2's action NavigateToPose of nav2_msgs, which the ROS 2 wheels lack.

``python -m rlstack.interfaces.nav2_messages`` generates it with ROS's own rosidl and compiles it, in half a minute, so
that the adapter node (:mod:`rlstack.nodes.nav2`) reaches a Nav2 elsewhere on the network; ``--remove`` removes it. The
package has this one action, with the fields of Nav2 for ROS 2 Jazzy (its releases 1.3); other releases differ.
"""

from __future__ import annotations

from rlstack.interfaces.interface_packages import Package, run

TYPE_HASH = "RIHS01_a56dba8a3234a1215e610180dc703ae25bbf406dded8b54887891c9732857eab"
"""As Jazzy's rosidl computes it from these fields. It was not compared with an installed nav2_msgs, but names, types
and their order determine the hash, comments and constants do not (REP-2016)."""

_GOAL = (("geometry_msgs/PoseStamped", "pose"), ("string", "behavior_tree"))
_RESULT = (("uint16", "error_code"), ("string", "error_msg"))
_FEEDBACK = (
    ("geometry_msgs/PoseStamped", "current_pose"),
    ("builtin_interfaces/Duration", "navigation_time"),
    ("builtin_interfaces/Duration", "estimated_time_remaining"),
    ("int16", "number_of_recoveries"),
    ("float32", "distance_remaining"),
)
_PARTS = {"Goal": _GOAL, "Result": _RESULT, "Feedback": _FEEDBACK}


def _idl() -> str:
    structs = []
    for name, fields in _PARTS.items():
        lines = [f"      {_idl_type(kind)} {field};" for kind, field in fields]
        structs.append("\n".join([f"    struct NavigateToPose_{name} {{", *lines, "    };"]))
    used = sorted({kind for fields in _PARTS.values() for kind, _ in fields if "/" in kind})
    includes = [f'#include "{kind.replace("/", "/msg/")}.idl"' for kind in used]
    return "\n".join([*includes, "", "module nav2_msgs {", "  module action {", *structs, "  };", "};", ""])


def _idl_type(kind: str) -> str:
    return kind.replace("/", "::msg::") if "/" in kind else {"float32": "float"}.get(kind, kind)


PACKAGE = Package(
    name="nav2_msgs",
    interface="action/NavigateToPose",
    text="---\n".join("".join(f"{kind} {field}\n" for kind, field in fields) for fields in _PARTS.values()),
    idl=_idl(),
    # the last three are used in the services and events that rosidl derives from an action
    needed=(
        *("geometry_msgs", "std_msgs", "builtin_interfaces"),
        *("action_msgs", "unique_identifier_msgs", "service_msgs"),
    ),
    hash=TYPE_HASH,
    left_out="Nav2 cannot be reached",
    command="python -m rlstack.interfaces.nav2_messages",
    version="1.3.0",
)


if __name__ == "__main__":
    raise SystemExit(run(PACKAGE, str(__doc__)))
