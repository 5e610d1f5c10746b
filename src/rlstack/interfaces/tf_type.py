"""The message type of ``/tf`` for serialized messages, also where tf2_msgs is not installed, as with the ROS 2 wheels.

rclpy and Fast DDS only need to know a type's name, hash and description to pass on serialized messages. Here they get
those of ``tf2_msgs/msg/TFMessage``, in the C structures that ROS generates: copies of those of
``visualization_msgs/msg/MarkerArray``, which is the same but for its names, as a list of another message. No compiler,
no generated code.
"""

from __future__ import annotations

import ctypes as c
import importlib
import importlib.metadata
import importlib.util
from typing import Any

from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.tf2_messages import PACKAGE, TYPE_HASH

_FIND = c.CFUNCTYPE(c.c_void_p, c.c_void_p, c.c_char_p)
_GET = c.CFUNCTYPE(c.c_void_p, c.c_void_p)
_REFUSE = c.CFUNCTYPE(c.c_bool, c.c_void_p, c.c_void_p)
_NESTED = 18
"""``rosidl_typesupport_introspection_c__ROS_TYPE_MESSAGE``."""
_FAST, _INTROSPECTION = b"rosidl_typesupport_fastrtps_c", b"rosidl_typesupport_introspection_c"
_MAJOR = "4."
"""Version of rosidl_runtime_c (Jazzy's) whose structures these are."""


class _Support(c.Structure):
    """``rosidl_message_type_support_t``."""

    _fields_ = [
        ("identifier", c.c_char_p),
        ("data", c.c_void_p),
        ("find", _FIND),
        ("hash", _GET),
        ("description", _GET),
        ("sources", _GET),
    ]


class _Callbacks(c.Structure):
    """``message_type_support_callbacks_t``."""

    _fields_ = [
        ("namespace", c.c_char_p),
        ("name", c.c_char_p),
        ("serialize", c.c_void_p),
        ("deserialize", c.c_void_p),
        ("size", c.c_void_p),
        ("most", c.c_void_p),
        ("keys", c.c_void_p),
    ]


class _Member(c.Structure):
    """``rosidl_typesupport_introspection_c__MessageMember``."""

    _fields_ = [
        ("name", c.c_char_p),
        ("type_id", c.c_uint8),
        ("text_bound", c.c_size_t),
        ("nested", c.c_void_p),
        ("is_key", c.c_bool),
        ("is_array", c.c_bool),
        ("array_size", c.c_size_t),
        ("is_upper_bound", c.c_bool),
        ("offset", c.c_uint32),
        ("default", c.c_void_p),
        ("functions", c.c_void_p * 6),
    ]


class _Members(c.Structure):
    """``rosidl_typesupport_introspection_c__MessageMembers``."""

    _fields_ = [
        ("namespace", c.c_char_p),
        ("name", c.c_char_p),
        ("count", c.c_uint32),
        ("size", c.c_size_t),
        ("has_key", c.c_bool),
        ("members", c.POINTER(_Member)),
        ("functions", c.c_void_p * 2),
    ]


class _Text(c.Structure):
    """``rosidl_runtime_c__String``."""

    _fields_ = [("data", c.c_char_p), ("size", c.c_size_t), ("capacity", c.c_size_t)]


class _List(c.Structure):
    """Any ``rosidl_runtime_c`` sequence."""

    _fields_ = [("data", c.c_void_p), ("size", c.c_size_t), ("capacity", c.c_size_t)]


class _Field(c.Structure):
    """``type_description_interfaces``' Field, with its FieldType."""

    _fields_ = [
        ("name", _Text),
        ("type_id", c.c_uint8),
        ("capacity", c.c_uint64),
        ("text_capacity", c.c_uint64),
        ("nested", _Text),
        ("default", _Text),
    ]


class _One(c.Structure):
    """``IndividualTypeDescription``."""

    _fields_ = [("name", _Text), ("fields", _List)]


class _Description(c.Structure):
    """``TypeDescription``."""

    _fields_ = [("one", _One), ("others", _List)]


class _Source(c.Structure):
    """``TypeSource``."""

    _fields_ = [("name", _Text), ("encoding", _Text), ("text", _Text)]


_made: Any = None


def tf_type() -> Any:
    """Return the class of ``/tf``'s messages, to publish bytes with and to subscribe ``raw``.

    It is ``tf2_msgs.msg.TFMessage`` where that is installed.

    Raises:
        UserError: tf2_msgs is not installed, and this ROS is not the one of the wheels; with the remedy.
    """
    global _made
    if importlib.util.find_spec("tf2_msgs") is not None:
        return topics.type_of(topics.TF)
    if _made is None:
        _made = _make()
    return _made


def _make() -> Any:
    import rclpy

    try:
        version = importlib.metadata.version("ros-rosidl-runtime-c")
    except importlib.metadata.PackageNotFoundError:
        version = "none"
    middleware = rclpy.get_rmw_implementation_identifier()
    if not version.startswith(_MAJOR) or middleware != "rmw_fastrtps_cpp":
        raise UserError(
            f"{topics.TF} is left out: tf2_msgs is not installed. With a system ROS 2: sudo apt install"
            f" ros-jazzy-tf2-msgs; otherwise `{PACKAGE.command}` builds it."
        )
    pattern, element = (
        _support("visualization_msgs.msg", "MarkerArray"),
        _support("geometry_msgs.msg", "TransformStamped"),
    )
    kept: list[Any] = []  # what C points to lives as long as the class
    found = {
        _FAST: _callbacks(pattern, kept),
        _INTROSPECTION: _introspection(pattern, element, kept),
    }
    described, sources = _description(pattern, element, kept), _sources(element, kept)
    hashed = (c.c_uint8 * 33)(1, *bytes.fromhex(TYPE_HASH.partition("_")[2]))
    getters = [_getter(c.addressof(one)) for one in (hashed, described, sources)]
    supports: dict[bytes, _Support] = {}
    find = _FIND(lambda handle, name: c.addressof(supports[name]) if name in supports else None)
    for name, data in found.items():
        supports[name] = _Support(name, c.addressof(data), find, *getters)
    whole = _Support(pattern.identifier, pattern.data, find, *getters)
    kept += [hashed, described, sources, *getters, find, *found.values(), whole]
    c.pythonapi.PyCapsule_New.restype = c.py_object
    c.pythonapi.PyCapsule_New.argtypes = [c.c_void_p, c.c_char_p, c.c_void_p]
    capsule = c.pythonapi.PyCapsule_New(c.addressof(whole), None, None)
    return _class(capsule, (kept, supports))


def _getter(address: int) -> Any:
    return _GET(lambda handle: address)


def _class(capsule: Any, kept: Any) -> Any:
    """Return a message class with this type support; rclpy asks for functions of objects too, which nothing calls."""
    other = type(_message_class("geometry_msgs.msg", "TransformStamped"))
    names = ("_CREATE_ROS_MESSAGE", "_CONVERT_FROM_PY", "_CONVERT_TO_PY", "_DESTROY_ROS_MESSAGE")
    functions = {name: getattr(other, name) for name in names}
    meta = type(
        "Metaclass_TFMessage",
        (type,),
        {
            "_TYPE_SUPPORT": capsule,
            "_kept": kept,
            "__import_type_support__": classmethod(lambda cls: None),
            **functions,
        },
    )
    return meta("TFMessage", (), {"__module__": "tf2_msgs.msg", "__doc__": "Type of /tf, for serialized messages."})


def _message_class(module: str, name: str) -> Any:
    kind = getattr(importlib.import_module(module), name)
    if type(kind)._TYPE_SUPPORT is None:
        type(kind).__import_type_support__()
    return kind


def _support(module: str, name: str) -> _Support:
    get = c.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = c.c_void_p, [c.py_object, c.c_char_p]
    return _Support.from_address(get(type(_message_class(module, name))._TYPE_SUPPORT, None))


def _found(support: _Support, name: bytes) -> _Support:
    return _Support.from_address(support.find(c.addressof(support), name))


def _expect(seen: Any, wanted: Any) -> None:
    if seen != wanted:
        raise UserError(
            f"{topics.TF} is left out: this ROS's structures are not Jazzy's ({seen!r} in place of {wanted!r});"
            f" `{PACKAGE.command}` builds tf2_msgs."
        )


def _copy(kind: Any, address: int | None) -> Any:
    _expect(bool(address), True)
    made = kind()
    c.memmove(c.byref(made), address or 0, c.sizeof(kind))
    return made


def _callbacks(pattern: _Support, kept: list[Any]) -> _Callbacks:
    made: _Callbacks = _copy(_Callbacks, _found(pattern, _FAST).data)
    _expect((made.namespace, made.name), (b"visualization_msgs::msg", b"MarkerArray"))
    made.namespace, made.name = b"tf2_msgs::msg", b"TFMessage"
    refuse = _REFUSE(lambda one, other: False)  # there are no objects of this class
    made.serialize = made.deserialize = c.cast(refuse, c.c_void_p).value
    kept.append(refuse)
    return made


def _introspection(pattern: _Support, element: _Support, kept: list[Any]) -> _Members:
    made: _Members = _copy(_Members, _found(pattern, _INTROSPECTION).data)
    _expect((made.namespace, made.name, made.count), (b"visualization_msgs__msg", b"MarkerArray", 1))
    member: _Member = _copy(_Member, c.addressof(made.members.contents))
    _expect((member.name, member.type_id, member.is_array, member.offset), (b"markers", _NESTED, True, 0))
    nested = _found(element, _INTROSPECTION)
    _expect(_copy(_Members, nested.data).name, b"TransformStamped")
    member.name, member.nested = b"transforms", c.addressof(nested)
    made.namespace, made.name, made.members = b"tf2_msgs__msg", b"TFMessage", c.pointer(member)
    kept += [member, nested]
    return made


def _text(value: str) -> _Text:
    data = value.encode()
    return _Text(data, len(data), len(data) + 1)


def _description(pattern: _Support, element: _Support, kept: list[Any]) -> _Description:
    made: _Description = _copy(_Description, pattern.description(c.addressof(pattern)))
    _expect((made.one.name.data, made.one.fields.size), (b"visualization_msgs/msg/MarkerArray", 1))
    field: _Field = _copy(_Field, made.one.fields.data)
    _expect((field.name.data, field.nested.data), (b"markers", b"visualization_msgs/msg/Marker"))
    nested: _Description = _copy(_Description, element.description(c.addressof(element)))
    _expect(nested.one.name.data, b"geometry_msgs/msg/TransformStamped")
    field.name, field.nested = _text("transforms"), _text("geometry_msgs/msg/TransformStamped")
    others = [*(_One * nested.others.size).from_address(nested.others.data), nested.one]
    listed = (_One * len(others))(*sorted(others, key=lambda one: bytes(one.name.data)))
    made.one.name, made.one.fields = _text("tf2_msgs/msg/TFMessage"), _List(c.addressof(field), 1, 1)
    made.others = _List(c.addressof(listed), len(listed), len(listed))
    kept += [field, listed]
    return made


def _sources(element: _Support, kept: list[Any]) -> _List:
    others: _List = _copy(_List, element.sources(c.addressof(element)))
    own = _Source(_text("tf2_msgs/msg/TFMessage"), _text("msg"), _text(PACKAGE.text))
    listed = (_Source * (others.size + 1))(own, *(_Source * others.size).from_address(others.data))
    kept.append(listed)
    return _List(c.addressof(listed), len(listed), len(listed))
