"""The robot ``rlstack``: LeRobot's interface on :class:`rlstack.environments.topic_robot.TopicRobot`."""

from typing import Any

from lerobot.robots.robot import Robot

from lerobot_robot_rlstack.config_rlstack import RlstackConfig
from rlstack.environments.topic_robot import TopicRobot


class Rlstack(Robot):
    """One robot on the topics; what is sent passes the guard, which arms it and decides what of it may be done.

    Args:
        config: The configuration.

    Raises:
        UserError: A name in it is unknown.
    """

    config_class = RlstackConfig
    name = "rlstack"

    def __init__(self, config: RlstackConfig) -> None:
        super().__init__(config)
        self.config = config
        self._robot = TopicRobot(
            config.robot,
            config.namespace,
            units=config.units,
            reverse=config.reverse,
            cameras=config.images,
            max_age_s=config.max_age_s,
            timeout_s=config.timeout_s,
        )
        self.cameras = dict(self._robot.image_shapes)
        """By name, rows, columns and colours: LeRobot's recorder counts them for its image writers."""

    @property
    def observation_features(self) -> dict[str, Any]:
        """Floats by joint or axis, and the shape of each camera's images."""
        return {**dict.fromkeys(self._robot.state_names, float), **self._robot.image_shapes}

    @property
    def action_features(self) -> dict[str, Any]:
        """Floats by joint or axis."""
        return dict.fromkeys(self._robot.action_names, float)

    @property
    def is_connected(self) -> bool:
        """Whether the topics are open."""
        return self._robot.connected

    def connect(self, calibrate: bool = True) -> None:
        """Open the topics and wait for the robot."""
        self._robot.connect()

    @property
    def is_calibrated(self) -> bool:
        """True: the robot's driver has its calibration."""
        return True

    def calibrate(self) -> None:
        """Do nothing: see :attr:`is_calibrated`."""

    def configure(self) -> None:
        """Do nothing: the robot's driver has configured it."""

    def get_observation(self) -> dict[str, Any]:
        """Return the newest state and images; raise an error if they are too old."""
        return self._robot.observation()

    def send_action(self, action: dict[str, Any]) -> dict[str, Any]:
        """Send an action to the guard and return it; raise an error if it is not one, or nothing answers it."""
        return self._robot.send({name: float(value) for name, value in action.items()})

    def disconnect(self) -> None:
        """Close the topics: the guard takes over."""
        self._robot.disconnect()
