"""Quadrotors other than the shipped one, to show that nothing is tuned for a single robot."""

from __future__ import annotations

from dataclasses import replace

from rlstack.kinds.quadrotor.spec import (
    Quadrotor,
    QuadrotorLimits,
    RateLoop,
    RigidBody,
    Rotor,
    RotorModel,
    load_quadrotor,
)
from rlstack.kinds.wheeled_base.spec import (
    Chassis,
    Contact,
    Steering,
    Wheel,
    WheelDrive,
    WheeledBase,
    WheeledBaseCommandLimits,
)
from rlstack.robots import Sensor, load_robot, robot_names


def modelled(kind: str = "") -> list[str]:
    """Return the names of the robots, all or of one kind, that engines have a model of: all but holonomic bases."""
    return [name for name in robot_names(kind) if getattr(load_robot(name), "drive", "") != "holonomic"]


def crazyflie() -> Quadrotor:
    """Return the shipped Crazyflie."""
    return load_quadrotor("crazyflie")


def large() -> Quadrotor:
    """Return a made-up 1.5 kg quadrotor: long front arms, other motor order, linear thrust term, unequal lags."""
    return Quadrotor(
        name="large",
        kind="quadrotor",
        description="made up for tests",
        control_rate_hz=200.0,
        body=RigidBody(
            mass_kg=1.5,
            inertia_kg_m2=(0.016, 0.022, 0.034),
            linear_drag_n_s_per_m=(0.25, 0.25, 0.35),
            collision_radius_m=0.35,
            collision_height_m=0.2,
        ),
        rotors=(
            Rotor(name="front_left", position_m=(0.20, 0.15, 0.02), yaw_torque_sign=1),
            Rotor(name="front_right", position_m=(0.20, -0.15, 0.02), yaw_torque_sign=-1),
            Rotor(name="back_left", position_m=(-0.16, 0.15, 0.02), yaw_torque_sign=-1),
            Rotor(name="back_right", position_m=(-0.16, -0.15, 0.02), yaw_torque_sign=1),
        ),
        rotor_model=RotorModel(
            speed_min_rad_s=100.0,
            speed_max_rad_s=1000.0,
            thrust_coefficients=(0.0, 1.0e-4, 8.5e-6),
            torque_per_thrust_m=0.016,
            rise_time_constant_s=0.03,
            fall_time_constant_s=0.06,
            radius_m=0.12,
        ),
        limits=QuadrotorLimits(
            tilt_rad=1.0,
            linear_velocity_m_s=8.0,
            angular_velocity_rad_s=15.0,
            rotor_acceleration_rad_s2=50000.0,
            geofence_min_m=(-10.0, -10.0, -0.5),
            geofence_max_m=(10.0, 10.0, 10.0),
        ),
        sensors=crazyflie().sensors,
    )


def heavier(robot: Quadrotor, factor: float) -> Quadrotor:
    """Return the robot with another mass, for a plant that is not what the controller believes."""
    return replace(robot, body=replace(robot.body, mass_kg=robot.body.mass_kg * factor))


def weakened(robot: Quadrotor, rotor: int, factor: float) -> Quadrotor:
    """Return the robot with one weak rotor, likewise."""
    rotors = list(robot.rotors)
    rotors[rotor] = replace(rotors[rotor], thrust_factor=factor)
    return replace(robot, rotors=tuple(rotors))


def car() -> WheeledBase:
    """Return a made-up Ackermann base of 4 kg: steered front wheels that roll freely, driven rear wheels."""

    def wheel(name: str, x: float, y: float, steering: str = "") -> Wheel:
        return Wheel(
            name=name,
            position_m=(x, y, 0.0),
            radius_m=0.05,
            width_m=0.03,
            mass_kg=0.15,
            spin_inertia_kg_m2=2.0e-4,
            transverse_inertia_kg_m2=1.2e-4,
            driven=not steering,
            steering=steering,
        )

    return WheeledBase(
        name="car",
        kind="wheeled_base",
        description="made up for tests",
        control_rate_hz=20.0,
        drive="ackermann",
        chassis=Chassis(
            mass_kg=3.2,
            centre_of_mass_m=(0.15, 0.01, 0.04),
            inertia_kg_m2=(0.02, 0.05, 0.06),
            products_of_inertia_kg_m2=(0.001, -0.002, 0.0005),
            collision_size_m=(0.4, 0.14, 0.08),
            collision_centre_m=(0.15, 0.0, 0.04),
        ),
        wheels=(
            wheel("front_left", 0.3, 0.1, "steer_left"),
            wheel("front_right", 0.3, -0.1, "steer_right"),
            wheel("rear_left", 0.0, 0.1),
            wheel("rear_right", 0.0, -0.1),
        ),
        wheel_drive=WheelDrive(
            velocity_max_rad_s=60.0, effort_max_n_m=1.0, damping_n_m_s_per_rad=0.1, armature_kg_m2=1.0e-4
        ),
        steering=Steering(
            position_max_rad=0.6,
            velocity_max_rad_s=5.0,
            effort_max_n_m=2.0,
            stiffness_n_m_per_rad=20.0,
            damping_n_m_s_per_rad=0.4,
            knuckle_mass_kg=0.1,
            knuckle_radius_m=0.03,
            armature_kg_m2=1.0e-3,
        ),
        contact=Contact(wheel_friction=0.9),
        limits=WheeledBaseCommandLimits(
            linear_velocity_m_s=2.0,
            angular_velocity_rad_s=3.0,
            linear_acceleration_m_s2=4.0,
            angular_acceleration_rad_s2=8.0,
            geofence_min_m=(-10.0, -10.0),
            geofence_max_m=(10.0, 10.0),
        ),
        sensors={"odom": Sensor(rate_hz=50.0)},
    )


def under_an_autopilot(name: str = "crazyflie") -> Quadrotor:
    """Return a quadrotor that takes rates and thrust."""
    loop = RateLoop(
        time_constant_s=0.03,
        yaw_time_constant_s=0.08,
        rates_max_rad_s=(6.0, 5.0, 3.0),
        rate_change_rad_s2=600.0,
        thrust_change_m_s3=1000.0,
    )
    return replace(load_quadrotor(name), rate_loop=loop)
