"""Starting files for quadrupeds."""

from rlstack.bringup.kind_scaffold import KindScaffold

SCAFFOLD = KindScaffold(
    robot="go1",
    recipe="quadruped_stand",
    task_class="rlstack.tasks.catalog.quadruped_stand:StandTask",
    transition="rlstack.tasks.quadruped.rewards:QuadrupedTransition",
    task_body='''\
    upright: float = value(0.5, at_least=0.0)
    """Weight of the cosine of the trunk's tilt, a second."""

    def reward_terms(self) -> Mapping[str, tuple[float, Callable[[Transition], Any]]]:
        """Return the reward: by name its weight, and a function of the robots after a step (NumPy, (N,))."""
        # s.tilt (rad), s.height_error (m), s.linear_velocity (m/s), ...: see Transition
        return {**super().reward_terms(), "upright": (self.upright, lambda s: np.cos(s.tilt))}
''',
    measure={
        "body_friction": "share: friction of everything but the feet",
        "links": "trunk and legs, each in its parent's frame (m): from the maker's URDF; masses (kg) by scales",
        "joints": "in the order of every joint array; ranges (rad) at the stops, velocities, efforts (N m) and gains as"
        " the robot's controller is set; rest_rad: the standing posture",
        "feet": "links that end in a foot; radius_m (m); friction (share): force over weight when dragged",
        "standing_height_m": "m: from the floor to the trunk's origin, standing",
        "crouching_rad": "rad by joint: the posture in which it lies safely",
        "limits.tilt_rad": "rad: the guard takes over beyond it",
    },
    short=("--steps", "64", "--envs", "2", "--selection.episodes", "2"),
)
