"""Starting files for quadrotors."""

from rlstack.bringup.kind_scaffold import KindScaffold

SCAFFOLD = KindScaffold(
    robot="x500",
    recipe="quadrotor_hover",
    task_class="rlstack.tasks.quadrotor.task:QuadrotorTask",
    transition="rlstack.tasks.quadrotor.rewards:QuadrotorTransition",
    task_body='''\
    # Starts of training episodes, wherever the task has them: --task-settings.starts.tilt-rad 0.5 on the command line,
    # or override the field here: starts: Starts = field(default_factory=lambda: Starts(tilt_rad=0.5)).

    upright: float = value(0.5, at_least=0.0)
    """Weight of being upright, a second."""

    def reward_terms(self) -> Mapping[str, tuple[float, Callable[[Transition], Any]]]:
        """Return the reward: by name its weight, and a function of the robots' state after a step (torch, (N,))."""
        # s.distance (m), s.speed (m/s), s.angular_velocity (rad/s), s.action, ...: see Transition
        return {**super().reward_terms(), "upright": (self.upright, lambda s: s.up_z.clamp(min=0.0))}
''',
    measure={
        "body.mass_kg": "kg: weigh it, ready to fly, with its battery",
        "body.inertia_kg_m2": "kg m^2 about roll, pitch and yaw: from the CAD; or hang the robot by two threads, let it"
        " swing about each vertical axis, and time it: m g d^2 T^2 / (16 pi^2 L), d the threads' distance and L their"
        " length (m), T the period (s)",
        "body.linear_drag_n_s_per_m": "N s/m, forward, left, up; optional: mass times g times tan(tilt) over speed in"
        " steady level flight",
        "body.collision_radius_m": "m: ruler, from the centre to the propellers' outer tips",
        "body.collision_height_m": "m: ruler, from the lowest point to the highest; half of it is how high base_link"
        " stands",
        "rotors.name": "its motor, in the order of the autopilot's outputs: this is the order of every rotor array",
        "rotors.position_m": "m from the centre of mass, forward, left, up: ruler",
        "rotors.yaw_torque_sign": "-1 if the propeller turns counter-clockwise seen from above, +1 if clockwise: the"
        " body turns the other way",
        "rotor_model.speed_min_rad_s": "rad/s: slowest speed of an armed motor; rpm times 2 pi / 60 (ESC telemetry)",
        "rotor_model.speed_max_rad_s": "rad/s: at full command on a full battery, as above, on a stand",
        "rotor_model.thrust_coefficients": "N for a speed w in rad/s, c0 + c1 w + c2 w^2, of one rotor: fasten it on"
        " kitchen scales and fit some six speeds; or its maker's thrust table. Often only c2",
        "rotor_model.torque_per_thrust_m": "m: torque over thrust, on a stand with a torque cell; 0.006 to 0.02 from"
        " small to 13 inch propellers",
        "rotor_model.rise_time_constant_s": "s: time to 63% of a step of the command up; from ESC telemetry or the"
        " sound",
        "rotor_model.fall_time_constant_s": "s: likewise of a step down",
        "rotor_model.spin_inertia_kg_m2": "kg m^2 of propeller and bell; about mass times radius squared / 3",
        "rotor_model.radius_m": "m: half of the propeller's diameter",
        "rate_loop": "of an autopilot that takes body rates and thrust. time_constant_s (s): time to 63% of a step of"
        " the rate in its log; rates_max_rad_s (rad/s): its setting, below limits.angular_velocity_rad_s;"
        " rate_change_rad_s2 and thrust_change_m_s3: the guard's rate limits",
        "aerodynamics": "optional models of the air, off unless a simulator is told so: docs/physics.md",
        "battery": "optional, off by default: cells, capacity_ah (Ah), internal_resistance_ohm (ohm: voltage drop over"
        " current at full throttle), hover_power_w (W: voltage times current in hover), full_speed_voltage_v (V)",
        "limits.tilt_rad": "rad: the guard takes over beyond it; below acos(weight / greatest thrust)",
        "limits.linear_velocity_m_s": "m/s: your choice, the fastest that you would fly there by hand",
        "limits.angular_velocity_rad_s": "rad/s: your choice, below the gyroscope's range",
        "limits.rotor_acceleration_rad_s2": "rad/s^2: fastest change of a command; full range in two control periods",
        "limits.geofence_min_m": "m in odom, x, y, z: corner of the space that it may fly in; z below the floor by the"
        " odometry's error",
        "limits.geofence_max_m": "m in odom: the opposite corner",
    },
    short=("--steps", "2048", "--envs", "64", "--selection.episodes", "4"),
)
