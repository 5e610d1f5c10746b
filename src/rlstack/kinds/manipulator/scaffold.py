"""Starting files for arms."""

from rlstack.bringup.kind_scaffold import KindScaffold

_JOINT = {
    "name": "as on the topic joint_states and in the model",
    "position_min_rad": "rad: turn it by hand to its stop, unpowered, and read joint_states; stay 0.05 rad within",
    "position_max_rad": "rad: likewise at the other stop",
    "position_min_m": "m: likewise of a joint that slides",
    "position_max_m": "m: likewise at the other end",
    "velocity_max_rad_s": "rad/s: data sheet",
    "velocity_max_m_s": "m/s: data sheet",
    "effort_max_n_m": "N m: data sheet",
    "effort_max_n": "N: data sheet",
    "stiffness_n_m_per_rad": "N m/rad: hang a weight on the horizontal link; torque over the angle that it gives way",
    "stiffness_n_per_m": "N/m: likewise, force over way",
    "damping_n_m_s_per_rad": "N m s/rad: so that a step in simulation rings as little as on the robot",
    "damping_n_s_per_m": "N s/m: likewise",
    "armature_kg_m2": "kg m^2: the motor's rotor times the gear's ratio squared",
    "rest_rad": "rad: where it waits; the tool points down in front",
    "rest_m": "m: likewise",
}

SCAFFOLD = KindScaffold(
    robot="so100",
    recipe="arm_reach",
    task_class="rlstack.tasks.manipulator.task:ArmTask",
    transition="rlstack.tasks.manipulator.rewards:ArmTransition",
    task_body='''\
    # Where episodes start and where goals are, in base_link: --task-settings.goals.x-m 0.15 0.3 on the command line,
    # or override the field here: goals: Region = field(default_factory=lambda: Region(x_m=(0.15, 0.3), ...)).

    gentle: float = value(-0.02, at_most=0.0)
    """Weight of the squared action, a second: slower motion."""

    def dense(self) -> Mapping[str, tuple[float, Callable[[Transition], Any]]]:
        """Return the reward: by name its weight, and a function of the arms after a step (NumPy, (N,))."""
        # s.tool, s.goal, s.object (m), s.distance (m), s.held, s.action, ...: see Transition
        return {**super().dense(), "gentle": (self.gentle, lambda s: np.square(s.action).sum(axis=1))}
''',
    measure={
        "mass_kg": "kg of all links: data sheet, or scales",
        "mass_tolerance": "share by which the model's mass may differ from mass_kg",
        "model": "your own URDF or MJCF in place of `links`: a path beside this file, package://my_arm/urdf/arm.urdf of"
        " a ROS package, or package:name/file of a Python package",
        "inertials": "by link, in place of the model's: mass_kg (kg), centre_m (m) and inertia_kg_m2 (kg m^2; xx yy zz"
        " xy xz yz) in the link's frame, from the CAD or an identification",
        "links": "from base to tool, each in its parent's frame, from the CAD. Or leave them out and name your URDF or"
        " MJCF: `model: my_arm.urdf`",
        "links.joint": "the joint that moves it; none: fixed to its parent",
        "links.position_m": "m: its frame in its parent's",
        "links.rpy_rad": "rad: likewise",
        "links.axis": "unit vector about which the joint turns; default z",
        "links.inertial": "mass_kg (kg), centre_m (m), inertia_kg_m2 (kg m^2; xx yy zz xy xz yz): CAD or scales",
        "links.boxes": "m: what may touch, as boxes",
        "links.cylinders": "m: likewise as cylinders along z",
        "joints": "from base to tool, in the order of every joint array",
        **{f"joints.{key}": how for key, how in _JOINT.items()},
        "gripper": "its joints, likewise; they follow the arm's in every joint array",
        **{f"gripper.{key}": how for key, how in _JOINT.items()},
        "arms": "robot files that stand on one table, each with a prefix and its pose (m, rad)",
        "gravity_compensation": "true if its controller carries its weight: it does not sag when you let go",
        "tool_link": "the link between the fingers' pads, where things are held",
        "work": "m in base_link: where tasks put goals and objects; opening_m (m): the fingers' distance when open;"
        " opened: its share of the gripper's range",
        "limits.workspace_min_m": "m in base_link: corner of the box that the guard keeps the tool in",
        "limits.workspace_max_m": "m: the opposite corner",
        "limits.tool_velocity_m_s": "m/s: your choice; fast enough to hurt is above 0.25",
    },
    short=("--steps", "64", "--envs", "2", "--selection.episodes", "2"),
)
