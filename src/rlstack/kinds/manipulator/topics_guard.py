"""Guard node parameters of manipulators."""

from __future__ import annotations

from rlstack.nodes.guard_parameters import OWN, STALENESS, unset
from rlstack.nodes.parameters import Parameter

PARAMETERS = (
    Parameter(
        "workspace_min_m", (), f"Lower corner of the box that the tool is kept in, m in base_link; {OWN}.", each=float
    ),
    Parameter("workspace_max_m", (), f"Upper corner of it, m in base_link; {OWN}.", each=float),
    unset("tool_velocity_m_s", "Largest speed of an arm's tool, m/s", 0, otherwise=OWN),
    Parameter("joint_speed", 1.0, "Share of the joints' speeds that targets may move with.", minimum=0.001),
    Parameter("speed_up_s", 0.15, "Least time in which targets go from standing to full speed, s.", minimum=0.0),
    Parameter(
        "window_s", 0.06, "Time whose motion a target may make up for at once: a policy's period, s.", minimum=0.001
    ),
    Parameter("self_collision", True, "Keep the arm's links from each other."),
    Parameter("apart_m", 0.02, "What is kept free between links that could meet, m.", minimum=0.0),
    STALENESS,
    Parameter("hold_before_parking_s", 10.0, "How long an arm holds still before it parks, s.", minimum=0.0),
    Parameter("park", True, "Whether it then goes slowly to its rest position; else it disarms where it is."),
    Parameter("parking_speed", 0.1, "Share of the joints' speeds that it parks with.", minimum=0.001, maximum=1.0),
)
