"""Build the package tf2_msgs, with the message of ``/tf``, which the ROS 2 wheels lack, for your own programs.

Nodes do without it (:mod:`rlstack.interfaces.tf_type`).

``python -m rlstack.interfaces.tf2_messages`` generates it with ROS's own rosidl, compiles it and installs it beside the
environment's other messages; ``--remove`` or `pip uninstall rlstack-tf2-msgs` removes it.
"""

from __future__ import annotations

from rlstack.interfaces.interface_packages import Package, run

TYPE_HASH = "RIHS01_e369d0f05a23ae52508854b66f6aa0437f3449d652e8cbf22d5abe85d020f087"
"""Of the released tf2_msgs/msg/TFMessage (`ros2 topic info -v /tf` on Jazzy), by which other nodes match the type."""

PACKAGE = Package(
    name="tf2_msgs",
    interface="msg/TFMessage",
    text="geometry_msgs/TransformStamped[] transforms\n",
    idl="""#include "geometry_msgs/msg/TransformStamped.idl"

module tf2_msgs {
  module msg {
    struct TFMessage {
      sequence<geometry_msgs::msg::TransformStamped> transforms;
    };
  };
};
""",
    needed=("geometry_msgs", "std_msgs", "builtin_interfaces"),
    hash=TYPE_HASH,
    left_out="your own programs cannot import it (rlstack's nodes publish /tf without it)",
    command="python -m rlstack.interfaces.tf2_messages",
)


if __name__ == "__main__":
    raise SystemExit(run(PACKAGE, str(__doc__)))
