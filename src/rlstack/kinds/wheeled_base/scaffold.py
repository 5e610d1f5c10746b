"""Starting files for wheeled bases."""

from rlstack.bringup.kind_scaffold import KindScaffold

_RANGE = "the range that training draws from, so that the policy copes with it: what you measured on other floors"

SCAFFOLD = KindScaffold(
    robot="turtlebot3_burger",
    recipe="base_navigation",
    task_class="rlstack.tasks.wheeled_base.task:BaseTask",
    transition="rlstack.tasks.wheeled_base.rewards:BaseTransition",
    task_body='''\
    calm: float = value(-0.05, at_most=0.0)
    """Weight of the squared turning rate, rad^2/s^2, a second."""

    def reward_terms(self) -> Mapping[str, tuple[float, Callable[[Transition], Any]]]:
        """Return the reward: by name its weight, and a function of the base after a step (an expression)."""
        # s.progress, s.clearance (m), s.distance (m), s.yaw_rate (rad/s), s.speed_share, ...: see Transition
        return {**super().reward_terms(), "calm": (self.calm, lambda s: s.yaw_rate * s.yaw_rate)}
''',
    measure={
        "drive": "differential: left and right wheels steer it; ackermann: steered wheels; holonomic: any direction",
        "outline": "m: radius_m of a disc around base_link, or corners_m of a polygon",
        "chassis.mass_kg": "kg: weigh the whole base and subtract the wheels",
        "chassis.centre_of_mass_m": "m in base_link, on the floor between the driven wheels: forward from the load of"
        " the front and back wheels on two scales; height from the CAD",
        "chassis.inertia_kg_m2": "kg m^2 about x, y, z through the centre of mass: from the CAD; a box of a x b x c has"
        " m (b^2 + c^2) / 12 and so on",
        "chassis.products_of_inertia_kg_m2": "kg m^2, xy, xz, yz, optional: from the CAD",
        "chassis.collision_size_m": "m: ruler, length, width and height of the body without the wheels",
        "chassis.collision_centre_m": "m: the middle of that box in base_link",
        "wheels.name": "its joint, as on the topic joint_states",
        "wheels.position_m": "m: its centre in base_link; left is +y",
        "wheels.radius_m": "m: push the base for ten turns of the wheel and divide the way by 20 pi",
        "wheels.width_m": "m: ruler",
        "wheels.mass_kg": "kg: scales",
        "wheels.spin_inertia_kg_m2": "kg m^2 about its axis: m r^2 / 2 of a solid wheel",
        "wheels.transverse_inertia_kg_m2": "kg m^2 across it: m (3 r^2 + width^2) / 12",
        "wheels.steering": "name of the joint that steers it, with drive: ackermann",
        "casters.position_m": "m: the ball's centre in base_link",
        "casters.radius_m": "m",
        "casters.mass_kg": "kg",
        "steering": "drive of the steered wheels: position_max_rad (rad) to either side, velocity_max_rad_s, effort and"
        " stiffness from the servo's data sheet; the knuckle that holds the wheel as a ball",
        "track_scale": "share, 1 unless it skids: turn in place ten times; commanded over true angle",
        "wheel_drive.velocity_max_rad_s": "rad/s: wheels in the air, full command",
        "wheel_drive.effort_max_n_m": "N m: the motor's stall torque times its gear",
        "wheel_drive.damping_n_m_s_per_rad": "N m s/rad: stall torque over no-load speed",
        "wheel_drive.armature_kg_m2": "kg m^2: the motor's rotor times the gear's ratio squared",
        "contact": "wheel_friction (share): drag the base with blocked wheels, force over weight",
        "response.command_delay_s": "s: from a command to the first motion in odom",
        "response.command_delay_range_s": _RANGE,
        "response.linear_time_constant_s": "s: time to 63% of a step of speed, after that delay",
        "response.linear_time_constant_range_s": _RANGE,
        "response.angular_time_constant_s": "s: likewise of the turning rate",
        "response.angular_time_constant_range_s": _RANGE,
        "response.linear_slip": "share: drive 5 m by odom and measure with a tape: 1 - true / odom",
        "response.linear_slip_range": _RANGE,
        "response.angular_slip": "share: likewise of ten turns in place",
        "response.angular_slip_range": _RANGE,
        "limits.linear_velocity_m_s": "m/s: your choice; the guard lets nothing faster through",
        "limits.angular_velocity_rad_s": "rad/s: likewise",
        "limits.linear_acceleration_m_s2": "m/s^2: below that at which it tips or slips",
        "limits.angular_acceleration_rad_s2": "rad/s^2: likewise",
        "limits.command_timeout_s": "s without a command after which its driver stops it",
        "limits.geofence_min_m": "m in odom, x and y: corner of the area that it may drive in",
        "limits.geofence_max_m": "m in odom: the opposite corner",
    },
    short=("--steps", "1600", "--envs", "32", "--selection.episodes", "4", "--task-settings.maps.count", "6"),
)
