"""A camera by OpenCV: V4L2 and UVC devices, network streams, or a video file in its place.

Policies see small images, such as 84 x 84, in which few cameras deliver. Larger ones are cut to the robot file's shape
about their middle, and made smaller.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.errors import UserError
from rlstack.interfaces.backend import Capture
from rlstack.libraries import import_library
from rlstack.robots.sensing import Camera

_FIRST_S = 5.0
_GONE_S = 1.0
"""How long a camera may be silent before its captures are refused."""
_AGAIN_S = 0.5


class VideoCamera:
    """See :class:`rlstack.hardware.captures.Source`.

    Args:
        name: Its name in the robot file.
        camera: What the robot file says of it.
        device: Such as /dev/video0, or a video file, which begins again at its end.
        rate_hz: Frames a second to ask for; 0: the robot file's.

    Raises:
        UserError: The robot file's camera measures depth, or gives no colour.
    """

    def __init__(self, name: str, camera: Camera, device: str, rate_hz: float = 0.0) -> None:
        if camera.depth or not camera.rgb:
            gives = "depth" if not camera.rgb else "colour and depth"
            raise UserError(
                f"The camera {name} of the robot file gives {gives}, and {device} would give colour alone: give a robot"
                " file whose camera has rgb: true and depth: false."
            )
        self._name, self._camera, self._device = name, camera, device
        self._rate_hz = rate_hz or camera.rate_hz
        self._video: Any = None
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()
        self._newest: Capture | None = None
        self._is_file = Path(device).is_file()

    def open(self) -> None:
        """See :meth:`rlstack.hardware.captures.Source.open`."""
        self._ending.clear()
        self._video = self._opened()
        self._newest = self._taken()
        end = time.monotonic() + _FIRST_S
        while self._newest is None:
            if time.monotonic() > end:
                self.close()
                raise UserError(
                    f"The camera {self._name} on {self._device} gives no image: is another program using it?"
                )
            self._newest = self._taken()
        self._thread = threading.Thread(target=self._serve, name=f"rlstack camera {self._name}", daemon=True)
        self._thread.start()

    def capture(self) -> Capture:
        """See :meth:`rlstack.hardware.captures.Source.capture`."""
        newest = self._newest
        if newest is None:
            raise UserError(f"The camera {self._name} is not open.")
        return newest

    def close(self) -> None:
        """See :meth:`rlstack.hardware.captures.Source.close`."""
        self._ending.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(5.0)
        if self._video is not None:
            self._video.release()
            self._video = None

    def _opened(self) -> Any:
        cv2 = import_library("cv2", "perception")
        video = cv2.VideoCapture(self._device) if self._is_file else cv2.VideoCapture(self._device, cv2.CAP_ANY)
        if not video.isOpened():
            raise UserError(
                f"The camera {self._name} on {self._device} cannot be opened: plug it in, check its name, and add your"
                " user to the group video."
            )
        if self._is_file:
            self._rate_hz = video.get(cv2.CAP_PROP_FPS) or self._rate_hz
        else:
            video.set(cv2.CAP_PROP_FRAME_WIDTH, self._camera.width)
            video.set(cv2.CAP_PROP_FRAME_HEIGHT, self._camera.height)
            video.set(cv2.CAP_PROP_FPS, self._rate_hz)
            video.set(cv2.CAP_PROP_BUFFERSIZE, 1)  # the newest image, not one that waited
        got = (int(video.get(cv2.CAP_PROP_FRAME_WIDTH)), int(video.get(cv2.CAP_PROP_FRAME_HEIGHT)))
        if got[0] < self._camera.width or got[1] < self._camera.height:
            video.release()
            raise UserError(
                f"The camera {self._name} on {self._device} gives {got[0]} x {got[1]} pixels, and the robot file says"
                f" {self._camera.width} x {self._camera.height}: choose one with as many pixels or more."
            )
        return video

    def _taken(self) -> Capture | None:
        """Return the next image, when it has come; None: there was none."""
        good, image = self._video.read()
        now = time.time()
        if not good or image is None:
            return None
        image = fitted(image, self._camera.width, self._camera.height)
        return Capture(now, {"rgb": np.ascontiguousarray(image[..., ::-1])})  # OpenCV's are blue, green, red

    def _serve(self) -> None:
        silent_s = time.monotonic()
        while not self._ending.is_set():
            if self._is_file:  # a device blocks until its next image, a file does not
                self._ending.wait(1.0 / self._rate_hz)
            taken = self._taken()
            if taken is not None:
                self._newest, silent_s = taken, time.monotonic()
            elif self._is_file or time.monotonic() - silent_s > _GONE_S:
                self._reopen()
            else:
                self._ending.wait(0.02)

    def _reopen(self) -> None:
        """Open it again: the file has ended, or the camera was pulled out. Its last image grows old meanwhile."""
        self._video.release()
        while not self._ending.is_set():
            try:
                self._video = self._opened()
                return
            except UserError:
                self._ending.wait(_AGAIN_S)


def fitted(image: NDArray[np.uint8], width: int, height: int) -> NDArray[np.uint8]:
    """Return the largest part of an image about its middle that has a shape, made smaller to a size.

    Args:
        image: (rows, columns, 3), at least of that size.
        width, height: Of the result, pixels.
    """
    rows, columns = image.shape[:2]
    if (columns, rows) == (width, height):
        return image
    cut = min(columns, round(rows * width / height)), min(rows, round(columns * height / width))
    left, top = (columns - cut[0]) // 2, (rows - cut[1]) // 2
    part = image[top : top + cut[1], left : left + cut[0]]
    cv2 = import_library("cv2", "perception")
    small: NDArray[np.uint8] = cv2.resize(part, (width, height), interpolation=cv2.INTER_AREA)
    return small
