"""Which publisher a message comes from: the middleware knows it, rclpy does not pass it on."""

from __future__ import annotations

import ctypes
import os
import time
import weakref
from functools import cache
from typing import Any

GID_BYTES = 16
_OK, _NOTHING_TAKEN = 0, 401
_CHECK_S = 0.5
"""How long the check at the start waits for the node's own message; it takes 2 ms."""


class _Allocator(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("allocate", "deallocate", "reallocate", "zero_allocate", "state")]


class _Bytes(ctypes.Structure):
    """``rcutils_uint8_array_t``."""

    _fields_ = [
        ("buffer", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("capacity", ctypes.c_size_t),
        ("allocator", _Allocator),
    ]


class _Gid(ctypes.Structure):
    """``rmw_gid_t``."""

    _fields_ = [("implementation", ctypes.c_char_p), ("data", ctypes.c_uint8 * GID_BYTES)]


class _MessageInfo(ctypes.Structure):
    """``rmw_message_info_t`` of Jazzy, with room for that of another version, which the check then refuses."""

    _fields_ = [
        ("source_timestamp", ctypes.c_int64),
        ("received_timestamp", ctypes.c_int64),
        ("publication_sequence_number", ctypes.c_uint64),
        ("reception_sequence_number", ctypes.c_uint64),
        ("publisher_gid", _Gid),
        ("from_intra_process", ctypes.c_bool),
        ("room", ctypes.c_uint8 * 256),
    ]


class IdentifiedTake:
    """Takes a subscription's serialized messages, each with the GID of its publisher.

    Args:
        subscription: One of rclpy's, of any message type.

    Raises:
        OSError, AttributeError: The libraries of this ROS build do not have the functions.
    """

    def __init__(self, subscription: Any) -> None:
        self._take, initialise, finish, allocator = _functions()
        self._handle, self._pointer = subscription.handle, subscription.handle.pointer
        self._bytes, self._info = _Bytes(), _MessageInfo()
        self._bytes_at, self._info_at = ctypes.byref(self._bytes), ctypes.byref(self._info)
        self._gid = (ctypes.c_char * GID_BYTES).from_buffer(self._info.publisher_gid.data)
        if initialise(self._bytes_at, 1024, ctypes.byref(allocator)) != _OK:
            raise OSError("no memory for a message")
        weakref.finalize(self, finish, self._bytes_at)

    def __call__(self) -> tuple[bytes, bytes] | None:
        """Return the next message and its publisher's GID, 16 bytes; None if there is no message."""
        with self._handle:  # raises InvalidHandle once it is destroyed
            result = self._take(self._pointer, self._bytes_at, self._info_at, None)
        if result == _NOTHING_TAKEN:
            return None
        if result != _OK:
            raise RuntimeError(f"rcl could not take a message (error {result})")
        return ctypes.string_at(self._bytes.buffer, self._bytes.length), self._gid.raw

    @property
    def sent_ns(self) -> int:
        """When the last message taken was sent, ns since 1970."""
        return int(self._info.source_timestamp)

    @property
    def received_ns(self) -> int:
        """When it was received, likewise."""
        return int(self._info.received_timestamp)

    @property
    def sequence(self) -> int:
        """Its publisher's number of it: they are consecutive."""
        return int(self._info.publication_sequence_number)


@cache
def _functions() -> tuple[Any, Any, Any, _Allocator]:
    """Return rcl's function that takes a message, and rcutils' that make and free the memory for it."""
    rcl, rcutils = (ctypes.CDLL(name, mode=os.RTLD_NOW | os.RTLD_NOLOAD) for name in ("librcl.so", "librcutils.so"))
    take, initialise, finish = (
        rcl.rcl_take_serialized_message,
        rcutils.rcutils_uint8_array_init,
        rcutils.rcutils_uint8_array_fini,
    )
    take.argtypes = [ctypes.c_void_p] * 4
    initialise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    finish.argtypes = [ctypes.c_void_p]
    rcutils.rcutils_get_default_allocator.restype = _Allocator
    return take, initialise, finish, rcutils.rcutils_get_default_allocator()


def why_unknown(node: Any) -> str:
    """Return why publishers cannot be told apart by their messages; empty if they can.

    The node sends itself one message on a topic of its own and compares the GID that comes with it with the GID that
    ROS states for its publisher: with another layout or another middleware they differ.

    Args:
        node: Any node of rclpy.
    """
    from rclpy.serialization import serialize_message
    from std_msgs.msg import String

    topic, message = "~/_identity", String(data="identity")
    made: list[tuple[Any, Any]] = []
    try:
        subscription = node.create_subscription(String, topic, lambda data: None, 1, raw=True)
        made.append((node.destroy_subscription, subscription))
        take = IdentifiedTake(subscription)
        publisher = node.create_publisher(String, topic, 1)
        made.append((node.destroy_publisher, publisher))
        publisher.publish(message)
        end = time.monotonic() + _CHECK_S
        while (taken := take()) is None:
            if time.monotonic() > end:
                return f"the node's own message did not come within {_CHECK_S:g} s"
            time.sleep(0.001)
        own = [bytes(info.endpoint_gid)[:GID_BYTES] for info in node.get_publishers_info_by_topic(topic)]
        if taken != (serialize_message(message), own[0] if len(own) == 1 else b""):
            return "this middleware names publishers in another way"
    except Exception as error:  # rclpy raises several private types; with security, the topic may be forbidden
        return str(error).strip().partition("\n")[0] or type(error).__name__
    finally:
        for destroy, entity in made:
            destroy(entity)
    return ""
