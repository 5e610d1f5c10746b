"""The quadrotor's RK4 step as a loop over robots, compiled by numba; rows (rows, N), one robot at a time.

Everything of one robot is in scalars, so that LLVM may make one SIMD loop of it.
"""

from __future__ import annotations

import math

import numpy as np
from numba import float32, njit

from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.sim.batch_quadrotor.layout import PARAMETERS, STATE

G = np.float32(STANDARD_GRAVITY)
P = {name: rows.start for name, rows in PARAMETERS.items()}
MASS, INERTIA, DRAG, THRUST, SCALE = P["mass"], P["inertia"], P["drag"], P["thrust_coefficients"], P["thrust_scale"]
PER_THRUST, LAG, RANGE = P["torque_per_thrust"], P["time_constants"], P["speed_range"]
ROTOR_X, ROTOR_Y, SIGN, FORCE, TORQUE = P["rotor_x"], P["rotor_y"], P["yaw_torque_sign"], P["force"], P["torque"]
GUST, WINDOW = P["gust_force"], P["gust_window"]
Q, V, W, R = (STATE[n].start for n in ("orientation", "linear_velocity", "angular_velocity", "rotor_speed"))
ELAPSED = STATE["elapsed"].start
HALF, TWO, ONE, ZERO, SIXTH = (np.float32(x) for x in (0.5, 2, 1, 0, 1 / 6))


@njit(inline="always", fastmath=True)
def lagged(speed, command, rise, fall):
    return command + (speed - command) * (rise if command > speed else fall)


@njit(inline="always", fastmath=True)
def lift(p, i, r, w):
    return p[SCALE + r, i] * (p[THRUST, i] + w * (p[THRUST + 1, i] + w * p[THRUST + 2, i]))


@njit(inline="always", fastmath=True)
def wrench(p, i, w0, w1, w2, w3):
    a, b, c, d = lift(p, i, 0, w0), lift(p, i, 1, w1), lift(p, i, 2, w2), lift(p, i, 3, w3)
    x, y, s = ROTOR_X, ROTOR_Y, SIGN
    tx = p[TORQUE, i] + p[y, i] * a + p[y + 1, i] * b + p[y + 2, i] * c + p[y + 3, i] * d
    ty = p[TORQUE + 1, i] - p[x, i] * a - p[x + 1, i] * b - p[x + 2, i] * c - p[x + 3, i] * d
    yaw = p[s, i] * a + p[s + 1, i] * b + p[s + 2, i] * c + p[s + 3, i] * d
    return a + b + c + d, tx, ty, p[TORQUE + 2, i] + p[PER_THRUST, i] * yaw


@njit(inline="always", fastmath=True)
def rotate(x, y, z, w, a, b, c):
    p, q, r = TWO * (y * c - z * b), TWO * (z * a - x * c), TWO * (x * b - y * a)
    return a + w * p + y * r - z * q, b + w * q + z * p - x * r, c + w * r + x * q - y * p


@njit(inline="always", fastmath=True)
def slope(p, i, x, y, z, w, vx, vy, vz, a, b, c, thrust, tx, ty, tz, fx, fy, fz):
    n = ONE / math.sqrt(x * x + y * y + z * z + w * w)
    bx, by, bz = rotate(x * n, y * n, z * n, -w * n, vx, vy, vz)
    bx, by, bz = -p[DRAG, i] * bx, -p[DRAG + 1, i] * by, thrust - p[DRAG + 2, i] * bz
    bx, by, bz = rotate(x * n, y * n, z * n, w * n, bx, by, bz)
    m = ONE / p[MASS, i]
    jx, jy, jz = p[INERTIA, i], p[INERTIA + 1, i], p[INERTIA + 2, i]
    return (
        HALF * (w * a + y * c - z * b),
        HALF * (w * b + z * a - x * c),
        HALF * (w * c + x * b - y * a),
        -HALF * (x * a + y * b + z * c),
        (bx + fx) * m,
        (by + fy) * m,
        (bz + fz) * m - G,
        (tx - (b * jz * c - c * jy * b)) / jx,
        (ty - (c * jx * a - a * jz * c)) / jy,
        (tz - (a * jy * b - b * jx * a)) / jz,
    )


@njit(fastmath=True, error_model="numpy", cache=True)
def step(s, p, u, out, h_):
    h = float32(h_)
    g = HALF * h
    for i in range(s.shape[1]):
        low, high = p[RANGE, i], p[RANGE + 1, i]
        u0, u1 = min(max(u[0, i], low), high), min(max(u[1, i], low), high)
        u2, u3 = min(max(u[2, i], low), high), min(max(u[3, i], low), high)
        rise, fall = math.exp(-g / p[LAG, i]), math.exp(-g / p[LAG + 1, i])
        r0, r1, r2, r3 = s[R, i], s[R + 1, i], s[R + 2, i], s[R + 3, i]
        m0, m1 = lagged(r0, u0, rise, fall), lagged(r1, u1, rise, fall)
        m2, m3 = lagged(r2, u2, rise, fall), lagged(r3, u3, rise, fall)
        e0, e1 = lagged(m0, u0, rise, fall), lagged(m1, u1, rise, fall)
        e2, e3 = lagged(m2, u2, rise, fall), lagged(m3, u3, rise, fall)
        t = s[ELAPSED, i]
        blows = max(min(p[WINDOW + 1, i], t + h) - max(p[WINDOW, i], t), ZERO) / h
        fx, fy = p[FORCE, i] + blows * p[GUST, i], p[FORCE + 1, i] + blows * p[GUST + 1, i]
        fz = p[FORCE + 2, i] + blows * p[GUST + 2, i]
        x, y, z, w = s[Q, i], s[Q + 1, i], s[Q + 2, i], s[Q + 3, i]
        vx, vy, vz = s[V, i], s[V + 1, i], s[V + 2, i]
        a, b, c = s[W, i], s[W + 1, i], s[W + 2, i]
        f1, x1, y1, z1 = wrench(p, i, r0, r1, r2, r3)
        f2, x2, y2, z2 = wrench(p, i, m0, m1, m2, m3)
        f4, x4, y4, z4 = wrench(p, i, e0, e1, e2, e3)
        k = slope(p, i, x, y, z, w, vx, vy, vz, a, b, c, f1, x1, y1, z1, fx, fy, fz)
        o = slope(
            p, i,
            x + g * k[0], y + g * k[1], z + g * k[2], w + g * k[3],
            vx + g * k[4], vy + g * k[5], vz + g * k[6],
            a + g * k[7], b + g * k[8], c + g * k[9],
            f2, x2, y2, z2, fx, fy, fz,
        )  # fmt: skip
        m = slope(
            p, i,
            x + g * o[0], y + g * o[1], z + g * o[2], w + g * o[3],
            vx + g * o[4], vy + g * o[5], vz + g * o[6],
            a + g * o[7], b + g * o[8], c + g * o[9],
            f2, x2, y2, z2, fx, fy, fz,
        )  # fmt: skip
        n = slope(
            p, i,
            x + h * m[0], y + h * m[1], z + h * m[2], w + h * m[3],
            vx + h * m[4], vy + h * m[5], vz + h * m[6],
            a + h * m[7], b + h * m[8], c + h * m[9],
            f4, x4, y4, z4, fx, fy, fz,
        )  # fmt: skip
        d = h * SIXTH
        # the position's slope is the velocity at each of the four places
        out[0, i] = s[0, i] + d * (TWO * (vx + g * k[4] + vx + g * o[4]) + vx + vx + h * m[4])
        out[1, i] = s[1, i] + d * (TWO * (vy + g * k[5] + vy + g * o[5]) + vy + vy + h * m[5])
        out[2, i] = s[2, i] + d * (TWO * (vz + g * k[6] + vz + g * o[6]) + vz + vz + h * m[6])
        x = x + d * (k[0] + TWO * (o[0] + m[0]) + n[0])
        y = y + d * (k[1] + TWO * (o[1] + m[1]) + n[1])
        z = z + d * (k[2] + TWO * (o[2] + m[2]) + n[2])
        w = w + d * (k[3] + TWO * (o[3] + m[3]) + n[3])
        length = ONE / math.sqrt(x * x + y * y + z * z + w * w)
        out[Q, i], out[Q + 1, i], out[Q + 2, i], out[Q + 3, i] = x * length, y * length, z * length, w * length
        out[V, i] = vx + d * (k[4] + TWO * (o[4] + m[4]) + n[4])
        out[V + 1, i] = vy + d * (k[5] + TWO * (o[5] + m[5]) + n[5])
        out[V + 2, i] = vz + d * (k[6] + TWO * (o[6] + m[6]) + n[6])
        out[W, i] = a + d * (k[7] + TWO * (o[7] + m[7]) + n[7])
        out[W + 1, i] = b + d * (k[8] + TWO * (o[8] + m[8]) + n[8])
        out[W + 2, i] = c + d * (k[9] + TWO * (o[9] + m[9]) + n[9])
        out[R, i], out[R + 1, i], out[R + 2, i], out[R + 3, i] = e0, e1, e2, e3
        out[ELAPSED, i] = t + h
