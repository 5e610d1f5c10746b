"""Checks of a contract against the catalogue of signals and the robot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import rlstack
from rlstack.errors import UserError
from rlstack.interfaces import signals
from rlstack.interfaces.image_reader import ImageGeometry, check_camera, image_geometry, is_image
from rlstack.interfaces.instruction import TextInput
from rlstack.interfaces.kind_signals import command_range, element_names, shape_of
from rlstack.interfaces.scan_geometry import scan_geometry
from rlstack.interfaces.scan_messages import check_lidar
from rlstack.interfaces.signals import ROBOT_SIZES, Signal, camera_of
from rlstack.interfaces.topics import INSTRUCTION, LATCHED
from rlstack.policies.contract import NEXT_STATE_PREFIX, SCHEMA_VERSION, STATE_PREFIX, Contract, Port, StatePort
from rlstack.policies.envelope import Envelope, check_envelope
from rlstack.robots import RobotSpec

MAX_ELEMENTS = 2**25
"""Largest input, output or state: a 3840 x 2160 RGB image passes, a typing error of gigabytes does not."""

_RETRAIN = "Train and export the policy again with this rlstack."

_SIGNAL_FIELDS = ("unit", "frame", "topic", "type", "field")

_MAPPINGS = ("family", "training", "evaluation")


def contract_for(
    robot: RobotSpec,
    inputs: Sequence[str],
    outputs: Sequence[str],
    *,
    rate_hz: float | None = None,
    pictures: Mapping[str, ImageGeometry] | None = None,
    text: TextInput | None = None,
    **fields: Any,
) -> Contract:
    """Return the contract of a policy for ``robot``, with every unit, frame, topic and limit filled in.

    Args:
        robot: Gives names of rotors and joints, the scan's geometry, command limits and, unless ``rate_hz`` is given,
            the control rate.
        inputs: Names of sensed signals, see :data:`rlstack.interfaces.signals.SENSED`.
        outputs: Names of commanded signals, see :data:`rlstack.interfaces.signals.COMMANDED`.
        rate_hz: Steps per second, Hz.
        pictures: Image geometry by camera, such as ``wrist``; default: the camera's own.
        text: The words that a policy with the input ``instruction`` knows.
        fields: ``name`` and ``task``; optionally ``state`` (shape of each recurrent state of one robot, by name),
            ``envelope`` (or the conditions in it alone), ``training`` and ``evaluation``, as in :class:`Contract`.

    Raises:
        UserError: No topic has an input or output, and the message lists the nearest names; or the robot lacks a
            sensor.
    """
    return new_contract(
        [port_for(signals.sensed(n), robot, pictures, text) for n in inputs],
        [output_port(signals.commanded(n), robot) for n in outputs],
        robot=robot.name,
        rate_hz=robot.control_rate_hz if rate_hz is None else rate_hz,
        **fields,
    )


def new_contract(
    inputs: Sequence[Port], outputs: Sequence[Port], state: Mapping[str, tuple[int, ...]] | None = None, **fields: Any
) -> Contract:
    """Return a contract of this version of rlstack; arguments as in :func:`contract_for`, and fields of it."""
    given: dict[str, Any] = {n: dict(value or {}) if n in _MAPPINGS else value for n, value in fields.items()}
    if not isinstance(given.get("envelope", Envelope()), Envelope):
        given["envelope"] = Envelope(conditions=dict(given["envelope"]))
    return Contract(
        schema_version=SCHEMA_VERSION,
        code_version=rlstack.__version__,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        state=tuple(StatePort(name=n, shape=tuple(shape)) for n, shape in (state or {}).items()),
        **given,
    )


def check_contract(contract: Contract, where: str) -> None:
    """Raise ``UserError`` if a contract contradicts itself or the catalogue of signals; see also ``check_family``.

    Raises:
        UserError: Names what differs, the value in the contract and the value in the catalogue.
    """
    if not contract.inputs or not contract.outputs:
        missing = "outputs" if contract.inputs else "inputs"
        raise UserError(f"{where}: the contract has no {missing}. {_RETRAIN}")
    _check_names(where, "input", [p.name for p in contract.inputs])
    _check_names(where, "output", [p.name for p in contract.outputs])
    _check_names(where, "state", [s.name for s in contract.state])
    for state in contract.state:
        _check_size(where, f"state '{state.name}'", state.shape)
    if contract.noise:
        _check_size(where, "noise", contract.noise)
    fed = {**signals.SENSED, **signals.ROBOT_FILE} if contract.family else signals.SENSED
    for port in contract.inputs:
        if port.name not in fed:
            raise UserError(f"{where}: {_unknown('input', 'gives', port.name, fed)}")
        _check_port(where, "input", port, fed[port.name], by_name=not contract.family)
    seen = {port.topic for port in contract.inputs if port.picture is not None}
    for port in contract.inputs:
        if camera_of(fed[port.name]) and port.topic not in seen:
            raise UserError(
                f"{where}: the input '{port.name}' is how old a picture is that the policy does not take. {_RETRAIN}"
            )
    aging = [port.name for port in contract.inputs if port.topic and port.topic not in LATCHED]
    check_envelope(contract.envelope, [port.name for port in contract.inputs], aging, where)
    for port in contract.outputs:
        if port.name not in signals.COMMANDED:
            raise UserError(f"{where}: {_unknown('output', 'takes', port.name, signals.COMMANDED)}")
        _check_port(where, "output", port, signals.COMMANDED[port.name], by_name=not contract.family)
        if not contract.family:
            _check_range(where, port)


def check_robot(contract: Contract, robot: RobotSpec, where: str) -> None:
    """Raise ``UserError`` for another robot, order of rotors or joints, or lidar, or for outputs beyond its limits.

    Raises:
        UserError: Names the difference.
    """
    if contract.robot != robot.name:
        raise UserError(
            f"{where} is a policy for the robot '{contract.robot}', not for '{robot.name}'."
            f" Choose --robot {contract.robot}, or a policy trained for {robot.name}."
        )
    for kind, ports, catalogue in (
        ("input", contract.inputs, signals.SENSED),
        ("output", contract.outputs, signals.COMMANDED),
    ):
        for port in ports:
            _check_elements(contract, robot, where, kind, port, catalogue[port.name])
    for port in contract.outputs:
        low, high = command_range(robot, port.name)
        if any(a < b for a, b in zip(port.minimum, low)) or any(a > b for a, b in zip(port.maximum, high)):
            raise UserError(
                f"{where}: the output '{port.name}' may go from {min(port.minimum):g} to {max(port.maximum):g}"
                f" {port.unit}, beyond the limits of {robot.name} ({min(low):g} to {max(high):g}). Train and export"
                " the policy again with this robot file."
            )


def port_for(
    signal: Signal,
    robot: RobotSpec,
    pictures: Mapping[str, ImageGeometry] | None = None,
    text: TextInput | None = None,
) -> Port:
    """Return the port of ``signal`` for a robot, with sizes, names and the geometry of scan or image.

    Args:
        signal: A signal of the catalogue.
        robot: The robot.
        pictures: See :func:`contract_for`.
        text: Likewise.

    Raises:
        UserError: The robot lacks the sensor.
    """
    shape, picture = shape_of(signal, robot), None
    if is_image(signal):
        camera = camera_of(signal)
        picture = (pictures or {}).get(camera) or image_geometry(robot.cameras[camera], camera)
        shape = picture.height, picture.width, *shape[2:]
    named = len(signal.shape) == 1 and ROBOT_SIZES.get(signal.shape[0], False)  # type: ignore[arg-type]
    return replace(
        port_of(signal, {}),
        shape=shape,
        element_names=element_names(robot)[str(signal.shape[0])] if named else (),
        scan=scan_geometry(robot.lidars[signal.topic], signal.topic) if "rays" in signal.shape else None,
        picture=picture,
        text=text if signal.topic == INSTRUCTION else None,
    )


def port_of(signal: Signal, sizes: Mapping[str, int]) -> Port:
    """Return the port of ``signal`` for any robot of these ``sizes``, without names."""
    shape = tuple(sizes.get(size, size) if isinstance(size, str) else size for size in signal.shape)
    return Port(shape=shape, **{key: getattr(signal, key) for key in ("name", *_SIGNAL_FIELDS)})


def output_port(signal: Signal, robot: RobotSpec) -> Port:
    """Return the port of a commanded ``signal`` for a robot, with its range."""
    minimum, maximum = command_range(robot, signal.name)
    return replace(port_for(signal, robot), minimum=minimum, maximum=maximum)


def _check_elements(contract: Contract, robot: RobotSpec, where: str, kind: str, port: Port, signal: Signal) -> None:
    """Raise ``UserError`` for a port whose rotors, joints, rays or camera are not the robot's."""
    if (camera := camera_of(signal)) and camera not in robot.cameras:
        has = f"its cameras are {', '.join(robot.cameras)}" if robot.cameras else "it has no cameras"
        raise UserError(
            f"{where}: the {kind} '{port.name}' is of a camera called '{camera}', which {robot.name} does not have:"
            f" {has}. Add it to the section cameras of the robot file, or choose a policy that does without."
        )
    shape_of(signal, robot)
    if ROBOT_SIZES.get(elements := str(signal.shape[0]), False):
        names = element_names(robot)[elements]
        if port.element_names != names:
            raise UserError(
                f"{where}: the {kind} '{port.name}' is for the {elements} {', '.join(port.element_names) or 'none'}"
                f" in this order, but {robot.name} has {', '.join(names)}. Train and export the"
                " policy again with this robot file."
            )
    if port.scan is not None:
        try:
            check_lidar(port.scan, robot.lidars[signal.topic], signal.topic)
        except ValueError as error:
            raise UserError(
                f"{where}: the {kind} '{port.name}' is not what {robot.name} scans: {error}. Train and export the"
                " policy again with this robot file."
            ) from error

    if port.picture is not None:
        try:
            check_camera(port.picture, robot.cameras[camera], camera)
        except ValueError as error:
            raise UserError(
                f"{where}: the {kind} '{port.name}' is not what {robot.name} sees: {error}. Correct the camera in the"
                " robot file, or train and export the policy again with it."
            ) from error


def _unknown(kind: str, verb: str, name: str, catalogue: Mapping[str, Signal]) -> str:
    return f"no topic {verb} the {kind} '{name}' (known: {', '.join(sorted(catalogue))}). {_RETRAIN}"


def _check_names(where: str, kind: str, names: list[str]) -> None:
    for name in names:
        if not name or name.startswith((STATE_PREFIX, NEXT_STATE_PREFIX)) or names.count(name) > 1:
            raise UserError(
                f"{where}: the {kind} name '{name}' is not allowed: each {kind} needs a name of its own that does not"
                f" begin with '{STATE_PREFIX}' or '{NEXT_STATE_PREFIX}'. Rename it and export the policy again."
            )


def _check_size(where: str, what: str, shape: tuple[int, ...]) -> None:
    """Check a shape, with the least size for dynamic axes."""
    if any(size < 1 for size in shape) or math.prod(shape) > MAX_ELEMENTS:
        raise UserError(
            f"{where}: the {what} has the shape {list(shape)}: every size must be at least 1 and their product at most"
            f" {MAX_ELEMENTS}. Export the policy again with the shape of one robot's value."
        )


def _check_port(where: str, kind: str, port: Port, signal: Signal, *, by_name: bool) -> None:
    for size in port.dynamic:
        if size not in signal.shape or size not in signals.DYNAMIC:
            raise UserError(
                f"{where}: the {kind} '{port.name}' has an axis '{size}' of no fixed size, but this rlstack's has the"
                f" shape [{', '.join(map(str, signal.shape))}]. {_RETRAIN}"
            )
    _check_size(where, f"{kind} '{port.name}'", port.sized(signals.DYNAMIC))
    for key in _SIGNAL_FIELDS:
        found, expected = getattr(port, key), getattr(signal, key)
        if found != expected:
            raise UserError(
                f"{where}: the {kind} '{port.name}' has the {key} '{found}', but this rlstack's has '{expected}'."
                f" {_RETRAIN}"
            )
    fits = len(port.shape) == len(signal.shape) and all(
        isinstance(size, int) if wanted in ROBOT_SIZES else wanted == size
        for wanted, size in zip(signal.shape, port.shape)
    )
    if not fits:
        raise UserError(
            f"{where}: the {kind} '{port.name}' has the shape [{', '.join(map(str, port.shape))}], but this rlstack's"
            f" has [{', '.join(map(str, signal.shape))}]. {_RETRAIN}"
        )
    count = math.prod(port.sized(signals.DYNAMIC))
    named = by_name and any(ROBOT_SIZES.get(str(size), False) for size in signal.shape)
    if (named or port.element_names) and len(port.element_names) != count:
        raise UserError(
            f"{where}: the {kind} '{port.name}' has {count} elements but {len(port.element_names)}"
            " element names. Export the policy again with a name for each, such as contract_for writes."
        )
    if (port.scan is None) == ("rays" in signal.shape) or (port.scan is not None and port.shape != (port.scan.rays,)):
        raise UserError(
            f"{where}: the {kind} '{port.name}' has the shape [{', '.join(map(str, port.shape))}] and"
            f" {'no scan' if port.scan is None else f'a scan of {port.scan.rays} rays'}. Export the policy again with"
            " the robot's scan, such as contract_for writes."
        )
    sized = port.picture is None or port.shape[:2] == (port.picture.height, port.picture.width)
    if (port.picture is None) == is_image(signal) or not sized:
        seen = "no picture" if port.picture is None else f"an image of {port.picture.width} x {port.picture.height}"
        raise UserError(
            f"{where}: the {kind} '{port.name}' has the shape [{', '.join(map(str, port.shape))}] and {seen} pixels."
            " Export the policy again with the camera's, such as contract_for writes."
        )
    if (port.text is None) == (signal.topic == INSTRUCTION):
        raise UserError(
            f"{where}: the {kind} '{port.name}' has {'no' if port.text is None else 'a'} list of words that the policy"
            " knows. Export the policy again with it for its instruction alone, such as contract_for writes."
        )
    if len(set(port.element_names)) != len(port.element_names):
        raise UserError(
            f"{where}: the {kind} '{port.name}' names an element twice ({', '.join(port.element_names)}). {_RETRAIN}"
        )


def _check_range(where: str, port: Port) -> None:
    count = math.prod(port.sized({}))
    if len(port.minimum) != count or len(port.maximum) != count:
        raise UserError(
            f"{where}: the output '{port.name}' has {count} elements but {len(port.minimum)} minimum and"
            f" {len(port.maximum)} maximum values. Export the policy again with both for each, such as contract_for"
            " writes."
        )
    for low, high in zip(port.minimum, port.maximum):
        if not low < high:
            raise UserError(
                f"{where}: the output '{port.name}' has the minimum {low:g} that is not below its maximum {high:g}."
                " Export the policy again with the robot's limits."
            )
