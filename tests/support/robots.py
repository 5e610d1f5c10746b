"""Quadrotors other than the shipped one, to show that nothing is tuned for a single robot."""

from __future__ import annotations

from dataclasses import replace

from rlstack.robots import Limits, Quadrotor, RigidBody, Rotor, RotorModel, load_quadrotor


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
        limits=Limits(
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
