"""Build ``rlstack_msgs``, whose one interface is the action of the train node: train, with feedback.

``python -m rlstack.interfaces.training_messages`` generates and compiles it; ``--remove`` removes it. No standard
action has a training run's fields.
"""

from __future__ import annotations

from rlstack.interfaces.interface_packages import Package, run

TYPE_HASH = "RIHS01_d027335f2c3160af0c684c7e0f0fa5671cacd6ade8609d5cf4492a5b759a8880"
"""As rosidl computes it from these fields."""

PACKAGE = Package(
    name="rlstack_msgs",
    interface="action/Train",
    text="""string recipe
string out
string[] overrides
---
bool finished
string policy
string message
---
uint64 steps
uint64 total_steps
float32 success
float32 seconds_left
""",
    idl="""module rlstack_msgs {
  module action {
    struct Train_Goal {
      string recipe;
      string out;
      sequence<string> overrides;
    };
    struct Train_Result {
      boolean finished;
      string policy;
      string message;
    };
    struct Train_Feedback {
      uint64 steps;
      uint64 total_steps;
      float success;
      float seconds_left;
    };
  };
};
""",
    needed=("action_msgs", "unique_identifier_msgs", "service_msgs", "builtin_interfaces"),
    hash=TYPE_HASH,
    left_out="the train node offers no action",
    command="python -m rlstack.interfaces.training_messages",
)


if __name__ == "__main__":
    raise SystemExit(run(PACKAGE, str(__doc__)))
