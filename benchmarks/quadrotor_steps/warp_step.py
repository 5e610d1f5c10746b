"""The quadrotor's RK4 step as a Warp kernel, forward and by Warp's adjoint: rlstack's own before rlstack.fused.

State and parameters are (N, columns); commands are a ring (slots, N, rotors).
"""

from __future__ import annotations

import warp as wp

from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.sim.batch_quadrotor.layout import PARAMETERS, STATE

wp.config.log_level = wp.LOG_ERROR  # no banner, and no warning on machines without a GPU
wp.set_module_options({"fast_math": False, "enable_backward": True})

_GRAVITY = wp.constant(float(STANDARD_GRAVITY))
_POSITION, _ORIENTATION = wp.constant(STATE["position"].start), wp.constant(STATE["orientation"].start)
_VELOCITY, _RATES = wp.constant(STATE["linear_velocity"].start), wp.constant(STATE["angular_velocity"].start)
_ROTORS, _ELAPSED = wp.constant(STATE["rotor_speed"].start), wp.constant(STATE["elapsed"].start)
_MASS, _INERTIA = wp.constant(PARAMETERS["mass"].start), wp.constant(PARAMETERS["inertia"].start)
_DRAG, _THRUST = wp.constant(PARAMETERS["drag"].start), wp.constant(PARAMETERS["thrust_coefficients"].start)
_THRUST_SCALE = wp.constant(PARAMETERS["thrust_scale"].start)
_TORQUE_PER_THRUST = wp.constant(PARAMETERS["torque_per_thrust"].start)
_TIME_CONSTANTS, _SPIN_INERTIA = (
    wp.constant(PARAMETERS["time_constants"].start),
    wp.constant(PARAMETERS["spin_inertia"].start),
)
_SPEED_RANGE = wp.constant(PARAMETERS["speed_range"].start)
_ROTOR_X, _ROTOR_Y = wp.constant(PARAMETERS["rotor_x"].start), wp.constant(PARAMETERS["rotor_y"].start)
_YAW_SIGN = wp.constant(PARAMETERS["yaw_torque_sign"].start)
_FORCE, _TORQUE = wp.constant(PARAMETERS["force"].start), wp.constant(PARAMETERS["torque"].start)
_GUST, _GUST_WINDOW = wp.constant(PARAMETERS["gust_force"].start), wp.constant(PARAMETERS["gust_window"].start)
_DELAY = wp.constant(PARAMETERS["delay"].start)


@wp.struct
class Body:
    """What moves: position m and velocity m/s in the world, attitude body to world, rates rad/s in the body."""

    position: wp.vec3
    orientation: wp.quat
    velocity: wp.vec3
    rates: wp.vec3


@wp.struct
class Slope:
    """The time derivative of a Body."""

    position: wp.vec3
    orientation: wp.quat
    velocity: wp.vec3
    rates: wp.vec3


@wp.func
def read_vec3(rows: wp.array2d(dtype=float), i: int, start: int) -> wp.vec3:
    """Read three columns."""
    return wp.vec3(rows[i, start], rows[i, start + 1], rows[i, start + 2])


@wp.func
def read_vec4(rows: wp.array2d(dtype=float), i: int, start: int) -> wp.vec4:
    """Read four columns."""
    return wp.vec4(rows[i, start], rows[i, start + 1], rows[i, start + 2], rows[i, start + 3])


@wp.func
def lagged(speed: wp.vec4, command: wp.vec4, rise: float, fall: float, duration: float) -> wp.vec4:
    """Rotor speeds after ``duration`` s of a constant command: the exact first-order response."""
    keep_rise = wp.exp(-duration / rise)
    keep_fall = wp.exp(-duration / fall)
    after = wp.vec4()
    for r in range(4):
        keep = keep_fall
        if command[r] > speed[r]:
            keep = keep_rise
        after[r] = command[r] + (speed[r] - command[r]) * keep
    return after


@wp.func
def spin_up_rate(speed: wp.vec4, command: wp.vec4, rise: float, fall: float) -> wp.vec4:
    """The rotors' angular acceleration under a command, rad/s^2."""
    rate = wp.vec4()
    for r in range(4):
        lag = fall
        if command[r] > speed[r]:
            lag = rise
        rate[r] = (command[r] - speed[r]) / lag
    return rate


@wp.func
def unit(q: wp.quat) -> wp.quat:
    """Scale to length 1; unlike Warp's own, NaN stays NaN, so that a broken robot is seen to be broken."""
    return q * (1.0 / wp.length(q))


@wp.func
def slope(
    body: Body,
    speed: wp.vec4,
    acceleration: wp.vec4,
    force: wp.vec3,
    parameters: wp.array2d(dtype=float),
    i: int,
    gyroscopic: int,
) -> Slope:
    """Newton and Euler for one robot at given rotor speeds; ``force`` is the disturbance in the world, N."""
    mass = parameters[i, _MASS]
    inertia = read_vec3(parameters, i, _INERTIA)
    thrust = float(0.0)
    torque = read_vec3(parameters, i, _TORQUE)
    spin = float(0.0)
    spin_up = float(0.0)
    for r in range(4):
        w = speed[r]
        lift = parameters[i, _THRUST_SCALE + r] * (
            parameters[i, _THRUST] + w * (parameters[i, _THRUST + 1] + w * parameters[i, _THRUST + 2])
        )
        sign = parameters[i, _YAW_SIGN + r]
        thrust = thrust + lift
        torque = torque + wp.vec3(
            parameters[i, _ROTOR_Y + r] * lift,
            -parameters[i, _ROTOR_X + r] * lift,
            sign * parameters[i, _TORQUE_PER_THRUST] * lift,
        )
        spin = spin - sign * w  # a rotor whose drag turns the body one way spins the other way
        spin_up = spin_up - sign * acceleration[r]
    if gyroscopic != 0:
        # the rotors' angular momentum turns with the body, and spinning them up pushes back
        spin_inertia = parameters[i, _SPIN_INERTIA]
        torque = torque - wp.cross(body.rates, wp.vec3(0.0, 0.0, spin_inertia * spin))
        torque = torque - wp.vec3(0.0, 0.0, spin_inertia * spin_up)
    # inside a Runge-Kutta step it is not of length 1, and would shear instead of rotate
    attitude = unit(body.orientation)
    velocity_in_body = wp.quat_rotate_inv(attitude, body.velocity)
    in_body = wp.vec3(0.0, 0.0, thrust) - wp.cw_mul(read_vec3(parameters, i, _DRAG), velocity_in_body)
    momentum = wp.cw_mul(inertia, body.rates)

    out = Slope()
    out.position = body.velocity
    out.orientation = 0.5 * (body.orientation * wp.quat(body.rates[0], body.rates[1], body.rates[2], 0.0))
    out.velocity = (wp.quat_rotate(attitude, in_body) + force) / mass - wp.vec3(0.0, 0.0, _GRAVITY)
    out.rates = wp.cw_div(torque - wp.cross(body.rates, momentum), inertia)
    return out


@wp.func
def moved(body: Body, rate: Slope, duration: float) -> Body:
    """The body after ``duration`` s at a constant slope; the quaternion is left unnormalised."""
    out = Body()
    out.position = body.position + rate.position * duration
    out.orientation = body.orientation + rate.orientation * duration
    out.velocity = body.velocity + rate.velocity * duration
    out.rates = body.rates + rate.rates * duration
    return out


@wp.kernel
def advance(
    state: wp.array2d(dtype=float),
    parameters: wp.array2d(dtype=float),
    commands: wp.array3d(dtype=float),
    newest: int,
    period: float,
    begin: float,
    h: float,
    gyroscopic: int,
    next_state: wp.array2d(dtype=float),
):
    """Advance every robot by ``h`` s, from ``begin`` s after the newest command came.

    ``commands`` (slots, N, 4) is a ring of the last commands, ``period`` s apart, with slot ``newest`` just
    written; a robot with a delay flies on older ones, switching inside the step where the delay says so.
    One launch is one RK4 step: a loop over steps in here would give wrong gradients, because Warp does not keep
    the values that a loop overwrites. For the same reason ``state`` and ``next_state`` must be two arrays.
    """
    i = wp.tid()
    slots = commands.shape[0]
    delay = parameters[i, _DELAY]
    whole = int(wp.floor(delay / period))
    switch = delay - float(whole) * period
    new_slot = (newest - whole + 2 * slots) % slots
    old_slot = (newest - whole - 1 + 2 * slots) % slots
    low, high = parameters[i, _SPEED_RANGE], parameters[i, _SPEED_RANGE + 1]
    command = wp.vec4()
    old_command = wp.vec4()
    for r in range(4):
        command[r] = wp.clamp(commands[new_slot, i, r], low, high)
        old_command[r] = wp.clamp(commands[old_slot, i, r], low, high)
    rise, fall = parameters[i, _TIME_CONSTANTS], parameters[i, _TIME_CONSTANTS + 1]

    body = Body()
    body.position = read_vec3(state, i, _POSITION)
    q = read_vec4(state, i, _ORIENTATION)
    body.orientation = wp.quat(q[0], q[1], q[2], q[3])
    body.velocity = read_vec3(state, i, _VELOCITY)
    body.rates = read_vec3(state, i, _RATES)
    speed = read_vec4(state, i, _ROTORS)
    elapsed = state[i, _ELAPSED]

    # rotor speeds in the middle and at the end of the step, exactly; the old command acts for ``ahead`` s more
    ahead = wp.clamp(switch - begin, 0.0, h)
    if ahead > 0.0:
        before_middle = wp.min(ahead, 0.5 * h)
        turned = lagged(speed, old_command, rise, fall, before_middle)
        middle = lagged(turned, command, rise, fall, 0.5 * h - before_middle)
        turned_late = lagged(middle, old_command, rise, fall, ahead - before_middle)
        end = lagged(turned_late, command, rise, fall, 0.5 * h - (ahead - before_middle))
    else:
        middle = lagged(speed, command, rise, fall, 0.5 * h)
        end = lagged(middle, command, rise, fall, 0.5 * h)
    # a gust counts by the share of the step in which it blows, so its momentum is right to the last newton second
    blows_until = wp.min(parameters[i, _GUST_WINDOW + 1], elapsed + h)
    blows = wp.max(blows_until - wp.max(parameters[i, _GUST_WINDOW], elapsed), 0.0) / h
    force = read_vec3(parameters, i, _FORCE) + blows * read_vec3(parameters, i, _GUST)

    a1 = wp.vec4()
    a2 = wp.vec4()
    a4 = wp.vec4()
    if gyroscopic != 0:
        if ahead > 0.0:
            a1 = spin_up_rate(speed, old_command, rise, fall)
        else:
            a1 = spin_up_rate(speed, command, rise, fall)
        if ahead > 0.5 * h:
            a2 = spin_up_rate(middle, old_command, rise, fall)
        else:
            a2 = spin_up_rate(middle, command, rise, fall)
        if ahead >= h:
            a4 = spin_up_rate(end, old_command, rise, fall)
        else:
            a4 = spin_up_rate(end, command, rise, fall)
    k1 = slope(body, speed, a1, force, parameters, i, gyroscopic)
    k2 = slope(moved(body, k1, 0.5 * h), middle, a2, force, parameters, i, gyroscopic)
    k3 = slope(moved(body, k2, 0.5 * h), middle, a2, force, parameters, i, gyroscopic)
    k4 = slope(moved(body, k3, h), end, a4, force, parameters, i, gyroscopic)
    total = Slope()
    total.position = (k1.position + 2.0 * (k2.position + k3.position) + k4.position) / 6.0
    total.orientation = (k1.orientation + 2.0 * (k2.orientation + k3.orientation) + k4.orientation) * (1.0 / 6.0)
    total.velocity = (k1.velocity + 2.0 * (k2.velocity + k3.velocity) + k4.velocity) / 6.0
    total.rates = (k1.rates + 2.0 * (k2.rates + k3.rates) + k4.rates) / 6.0
    after = moved(body, total, h)
    attitude = unit(after.orientation)

    for c in range(3):
        next_state[i, _POSITION + c] = after.position[c]
        next_state[i, _VELOCITY + c] = after.velocity[c]
        next_state[i, _RATES + c] = after.rates[c]
    for c in range(4):
        next_state[i, _ORIENTATION + c] = attitude[c]
        next_state[i, _ROTORS + c] = end[c]
    next_state[i, _ELAPSED] = elapsed + h
