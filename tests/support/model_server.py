"""An OpenAI-compatible endpoint on this machine: it speaks the protocol, and says what a test has it say."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, Any]], str | bytes]
"""Returns a request's answer: the text of the model's message, or bytes, which are sent as they are."""


class ModelServer:
    """The endpoint's address, and the requests that it has got.

    Args:
        url: The base of the endpoint.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []


def completion(content: str | None, **message: Any) -> bytes:
    """Return a chat completion."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": "stop"}
    return json.dumps({"id": "1", "object": "chat.completion", "choices": [choice]}).encode()


@contextmanager
def model_server(answer: Answer, status: int = 200, pause_s: float = 0.0) -> Iterator[ModelServer]:
    """Serve on a free port.

    Args:
        answer: What the model says.
        status: HTTP status of every answer.
        pause_s: Pause before every byte of an answer.
    """
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert self.path == "/v1/chat/completions" and request["model"] and request["messages"]
            made.requests.append(request)
            made.keys.append(self.headers["Authorization"])
            said = answer(request)
            data = said if isinstance(said, bytes) else completion(said)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            try:
                if not pause_s:
                    self.wfile.write(data)
                for byte in data if pause_s else b"":
                    if ended.wait(pause_s):
                        return
                    self.wfile.write(bytes([byte]))
            except OSError:  # the client has had enough
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made = ModelServer(f"http://127.0.0.1:{server.server_port}/v1")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield made
    finally:
        ended.set()
        server.shutdown()
        server.server_close()
        thread.join()


def polled(poll: Callable[[], Any], seconds: float = 10.0) -> Any:
    """Return what a poll returns once it is not None."""
    end = time.monotonic() + seconds
    while (found := poll()) is None:
        assert time.monotonic() < end, f"nothing came within {seconds:g} s"
        time.sleep(0.002)
    return found
