"""Guard node parameters of quadrotors."""

from __future__ import annotations

from rlstack.nodes.guard_parameters import OWN, unset
from rlstack.nodes.parameters import Parameter

PARAMETERS = (
    unset("rotor_acceleration_rad_s2", "Fastest change of a rotor speed command, rad/s^2", 0, otherwise=OWN),
    Parameter("staleness_periods", 2.0, "Control periods from which a policy's command is stale.", minimum=1.0),
    Parameter("hover_before_landing_s", 5.0, "How long the fallback hovers before it lands, s.", minimum=0.0),
    Parameter("takeoff_height_m", 1.0, "Height above the ground at which the policy takes over, m.", minimum=0.01),
    Parameter("landing_speed_m_s", 0.3, "Descent of the fallback, m/s.", minimum=0.01),
    Parameter("floor_m", 0.0, "Height of the floor in odom, m."),
)
