"""What benchmarks/foreign_simulators.py has other simulators try: the tasks' held-out trials, as plain numbers.

A job is a JSON object with all that a script of benchmarks/foreign_simulators needs to know of a task: starts, goals,
maps, criteria, noise, and the numbers of the policy's robot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.robots import load_robot
from rlstack.tasks import TASKS
from rlstack.tasks.quadrotor.sampling import Randomisation, Starts

SEED = 424242
"""Not one of training, tuning or verification."""


def flights(task: str, trials: int, flown: str = "crazyflie") -> dict[str, Any]:
    """Return the job of the hover task's held-out flights: starts, disturbances, noise, the robot's numbers."""
    hover = TASKS.load("quadrotor_hover")()
    robot, rng = load_quadrotor(flown), np.random.default_rng(SEED)
    starts, disturbed = Starts().sample(rng, trials, robot), Randomisation().sample(rng, trials, robot)
    noise = hover.noise
    model = robot.rotor_model
    family = {"family": family_of_raptor(trials)} if task == "quadrotor_foundation" else {}
    return {
        **family,
        "starts": {
            **{name: array.tolist() for name, array in starts.items()},
            "force_n": disturbed.force_n.tolist(),
            "torque_n_m": disturbed.torque_n_m.tolist(),
        },
        "goal_position": [1.0, -0.5, 3.0],
        "goal_yaw": 0.6,
        "criteria": asdict(hover.criteria),
        "noise": {
            "position": noise.position_m,
            "orientation": noise.orientation_rad,
            "linear_velocity": noise.linear_velocity_m_s,
            "angular_velocity": noise.angular_velocity_rad_s,
        },
        "robot": {
            "name": robot.name,
            "mass_kg": robot.body.mass_kg,
            "inertia_kg_m2": robot.body.inertia_kg_m2,
            "linear_drag_n_s_per_m": robot.body.linear_drag_n_s_per_m,
            "rotors": [asdict(rotor) for rotor in robot.rotors],
            **{name: value for name, value in asdict(model).items() if name != "name"},
        },
    }


def family_of_raptor(count: int) -> list[dict[str, Any]]:
    """Return vehicles of RAPTOR's training family, in l2f's words (its own sampler is compiled without)."""
    from rlstack.tasks.quadrotor.family import nominal_robot, sample_family

    robot = nominal_robot(load_quadrotor("crazyflie"))
    p, model = sample_family(np.random.default_rng(SEED), count, robot).perturbation, robot.rotor_model
    found: list[dict[str, Any]] = []
    top = model.speed_max_rad_s
    curve = np.array(model.thrust_coefficients) * top ** np.arange(3)
    for k in range(count):
        inertia = np.diag(np.array(robot.body.inertia_kg_m2) * p.inertia_scale[k])
        found.append(
            {
                "rotor_positions": (robot.rotor_positions * [*p.arm_scale[k], 1.0]).tolist(),
                "rotor_torque_directions": [[0.0, 0.0, float(sign)] for sign in robot.yaw_torque_signs],
                "rotor_thrust_coefficients": [(curve * p.thrust_scale[k, 0]).tolist()] * 4,
                "rotor_torque_constants": [float(model.torque_per_thrust_m * p.torque_scale[k])] * 4,
                "rotor_time_constants_rising": [float(model.rise_time_constant_s * p.time_constant_scale[k, 0])] * 4,
                "rotor_time_constants_falling": [float(model.fall_time_constant_s * p.time_constant_scale[k, 1])] * 4,
                "mass": float(robot.body.mass_kg * p.mass_scale[k]),
                "J": inertia.tolist(),
                "J_inv": np.linalg.inv(inertia).tolist(),
            }
        )
    return found


def drives(task: str, trials: int) -> dict[str, Any]:
    """Return the job of base_navigation's held-out drives: maps, starts, goals, the robot's numbers."""
    from rlstack.sim.batch_wheeled_base.layout import PARAMETERS
    from rlstack.verification.navigation_episodes import held_out_episodes

    settings, robot = TASKS.load(task)(), load_robot("turtlebot3_burger")
    limits, lidar = robot.limits, robot.lidars["scan"]
    fastest = limits.linear_velocity_m_s
    course = held_out_episodes(robot, trials, SEED, kinds=settings.verified_on, fastest_m_s=fastest)
    pool = course.pool

    def there(rows: np.ndarray, width: int) -> list[list[float]]:
        """Return the obstacles that are not a kilometre away."""
        return [row.tolist() for row in rows.reshape(-1, width).astype(float) if abs(row[0]) < 100.0]

    return {
        "arrival_m": settings.arrival_m,
        "robot": {
            "radius_m": robot.radius_m,
            "limits": [fastest, limits.angular_velocity_rad_s],
            "lidar": {
                key: getattr(lidar, key)
                for key in ("position_m", "range_min_m", "range_max_m", "noise_m", "noise_share", "dropout")
            },
        },
        "drives": [
            {
                "number": k,
                "boxes": there(pool.boxes[k], 6),
                "circles": [row[:3] for row in there(pool.circles[k], 5)],
                "size_m": pool.maps[k].size_m,
                "start": pool.starts[k].astype(float).tolist(),
                "goal": pool.goals[k].astype(float).tolist(),
                "limit_s": float(course.limit_s[k]),
                "fastest_s": float(pool.shortest_m[k]) / fastest,
                "response": {
                    "delay_s": float(course.parameters[PARAMETERS["delay"], k][0]),
                    "lag_s": course.parameters[PARAMETERS["lag"], k].astype(float).tolist(),
                    "gain": course.parameters[PARAMETERS["gain"], k].astype(float).tolist(),
                    "acceleration": course.parameters[PARAMETERS["acceleration"], k].astype(float).tolist(),
                },
            }
            for k in range(trials)
        ],
    }


def crossings(task: str, trials: int) -> dict[str, Any]:
    """Return the job of CrowdNav's crossings: where people start, and everybody's ORCA."""
    from crowdnav import (
        CROSSING_M,
        HORIZON_S,
        LIMIT_S,
        MARGIN_M,
        MOST_NEIGHBOURS,
        NEIGHBOURS_M,
        PERIOD_S,
        RADIUS_M,
        SPEED_M_S,
        published_starts,
    )

    return {
        "people": published_starts(trials).tolist(),
        "circle_m": CROSSING_M,
        "period_s": PERIOD_S,
        "limit_s": LIMIT_S,
        "radius_m": RADIUS_M,
        "speed_m_s": SPEED_M_S,
        "margin_m": MARGIN_M,
        "orca": [NEIGHBOURS_M, MOST_NEIGHBOURS, HORIZON_S, HORIZON_S],
    }


def reaches(task: str, trials: int) -> dict[str, Any]:
    """Return the job of an arm's trials: starts, goals, the robot's numbers."""
    settings, robot = TASKS.load(task)(), load_robot("panda")
    drawn = settings.draw(robot, np.random.default_rng(SEED), trials)
    numbers = [asdict(drive) for drive in (*robot.joints, *robot.gripper)]

    def of(name: str) -> list[float]:
        return [next(value for key, value in drive.items() if key.startswith(name)) for drive in numbers]

    return {
        "joints": drawn.joints.tolist(),
        "goals": drawn.goal.tolist(),
        "duration_s": max(5.0, settings.episode_s),
        "tolerance_m": settings.tolerance_m,
        "hold_s": settings.hold_s,
        "noise": {"joint_position": settings.noise.joint_rad, "joint_velocity": settings.noise.joint_velocity_rad_s},
        "robot": {
            "names": [drive["name"] for drive in numbers],
            **{name: of(name) for name in ("stiffness", "damping", "effort_max")},
            "inertials": {link: asdict(inertial) for link, inertial in robot.inertials.items()},
        },
    }


JOBS: dict[str, Callable[[str, int], dict[str, Any]]] = {
    "quadrotor": flights,
    "wheeled_base": drives,
    "crowd": crossings,
    "manipulator": reaches,
}
