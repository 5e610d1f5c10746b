"""Plans from a language model behind an OpenAI-compatible endpoint.

The model's answer is data and nothing else: JSON alone, of a bounded size, within a time limit, with steps that are
loaded into the skills that the robot has. Anything else is refused, and the robot stays where it is.
"""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from rlstack.agent.abilities import Abilities
from rlstack.agent.skills import SKILLS, Step, described_skill, loaded_steps
from rlstack.errors import UserError

KEY_VARIABLE = "OPENAI_API_KEY"
ANSWERED_WITHIN_S = 30.0
MOST_BYTES = 2**16
"""Size of an answer, of which a plan of 100 steps needs a tenth."""
PEOPLE_ONLY = ("estop", "disarm")
"""Skills that a model does not get: both switch motors off at once."""

_CHUNK = 4096


@dataclass(frozen=True)
class Model:
    """A language model.

    Args:
        url: The endpoint's base, such as ``http://localhost:8000/v1``; ``/chat/completions`` is added.
        name: The model's name there.
        key_variable: The environment variable with the key; it may be unset.
        timeout_s: Time limit for the whole answer.

    Raises:
        UserError: The address is not one of http or https, a name is missing, or the time limit is not above 0.
    """

    url: str
    name: str
    key_variable: str = KEY_VARIABLE
    timeout_s: float = ANSWERED_WITHIN_S

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        try:
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:  # a port that is no number
            usable = False
        if not usable:
            raise UserError(f"--model-url '{self.url}' is not allowed: give such as http://localhost:8000/v1.")
        if not self.name:
            raise UserError("--model-url needs --model, the model's name at that endpoint.")
        if not self.timeout_s > 0.0:
            raise UserError(f"--model-timeout {self.timeout_s:g} is not allowed: give a number above 0, s.")


class AnswerError(UserError):
    """A model's answer is of no use, though its endpoint works: it refuses, or what it says is empty or cut short."""


class Completion:
    """A model's answer to messages, asked for in a thread of its own, so that nothing else waits for it.

    Args:
        model: The model.
        messages: Role and content of each message.
        most_tokens: Longest answer.
        json_alone: Whether the endpoint shall see to it that the answer is JSON.
    """

    def __init__(
        self, model: Model, messages: Sequence[tuple[str, str]], most_tokens: int = 2000, json_alone: bool = False
    ) -> None:
        self._model = model
        self._deadline = time.monotonic() + model.timeout_s
        self._answer: str | None = None
        self._problem: UserError | None = None
        self._connection: http.client.HTTPConnection | None = None
        request: dict[str, Any] = {
            "model": model.name,
            "messages": [{"role": role, "content": content} for role, content in messages],
            "temperature": 0,
            "max_tokens": most_tokens,
        }
        if json_alone:
            request["response_format"] = {"type": "json_object"}
        self._thread = threading.Thread(target=self._ask, args=(json.dumps(request).encode(),), daemon=True)
        self._thread.start()

    def poll(self) -> str | None:
        """Return the answer; None while it is awaited.

        Raises:
            UserError: There is no answer in time, or the endpoint cannot be used; says which.
            AnswerError: The answer is of no use.
        """
        if self._problem is not None:
            raise self._problem
        if self._answer is None and time.monotonic() > self._deadline:
            self.cancel()
            raise UserError(f"The model did not answer within {self._model.timeout_s:g} s.")
        return self._answer

    def wait(self) -> str:
        """Return the answer once it is there; raises what :meth:`poll` raises."""
        self._thread.join(self._model.timeout_s)
        while (answer := self.poll()) is None:
            time.sleep(0.01)
        return answer

    def cancel(self) -> None:
        """Give up the answer."""
        connection = self._connection
        if connection is not None and connection.sock is not None:
            connection.sock.close()

    def _ask(self, body: bytes) -> None:
        try:
            self._answer = self._exchange(body)
        except UserError as error:
            self._problem = error
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:  # some where it is cancelled
            said = str(error) or type(error).__name__
            self._problem = UserError(f"The model's endpoint {self._model.url} cannot be used: {said[:200]}.")

    def _exchange(self, body: bytes) -> str:
        parts = urlsplit(self._model.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname or "", parts.port, timeout=self._model.timeout_s)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if key := os.environ.get(self._model.key_variable, ""):
            headers["Authorization"] = f"Bearer {key}"
        try:
            self._connection.request("POST", f"{parts.path.rstrip('/')}/chat/completions", body, headers)
            response = self._connection.getresponse()
            data = b""
            while len(data) <= MOST_BYTES and (more := response.read1(_CHUNK)):
                data += more
                if time.monotonic() > self._deadline:
                    raise UserError(f"The model did not answer within {self._model.timeout_s:g} s.")
        finally:
            self._connection.close()
        if response.status != http.HTTPStatus.OK:
            raise UserError(
                f"The model's endpoint {self._model.url} answered with status {response.status} {response.reason}."
            )
        if len(data) > MOST_BYTES:
            raise UserError(f"The model's answer is longer than {MOST_BYTES // 1024} KiB.")
        return content_of(data)


class Request:
    """A request to a model for a plan.

    Args:
        model: The model.
        abilities: The robot's.
        sentence: What is asked for.
        told: What else it should know, such as what has failed.
    """

    def __init__(self, model: Model, abilities: Abilities, sentence: str, told: str = "") -> None:
        messages = [("system", instructions(abilities)), ("user", sentence)]
        self._abilities = abilities
        self._completion = Completion(model, messages + ([("user", told)] if told else []), json_alone=True)

    def poll(self) -> tuple[Step, ...] | None:
        """Return the plan; None while the answer is awaited.

        Raises:
            UserError: There is no answer in time, or it is not a plan of the robot's skills; says which.
        """
        answer = self._completion.poll()
        return None if answer is None else steps_of_answer(answer, self._abilities)

    def cancel(self) -> None:
        """Give up the answer."""
        self._completion.cancel()


def content_of(data: bytes) -> str:
    """Return the text of an endpoint's answer.

    Raises:
        UserError: It has no such text.
        AnswerError: The text is empty or was cut short, or the model refuses.
    """
    try:
        choice = json.loads(data)["choices"][0]
        message = choice["message"]
        content, refusal = message.get("content"), message.get("refusal")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise UserError("The model's endpoint did not answer with a chat completion.") from error
    if isinstance(refusal, str) and refusal:
        raise AnswerError(f"The model refuses: {_short(refusal)}.")
    if choice.get("finish_reason") == "length":
        raise AnswerError("The model's answer was cut short: ask for less at once.")
    if not isinstance(content, str) or not content.strip():
        raise AnswerError("The model's answer is empty.")
    return content


def steps_of_answer(content: str, abilities: Abilities) -> tuple[Step, ...]:
    """Return the plan of a model's answer: JSON ``{"steps": [...]}`` or ``{"refuse": "why"}``, perhaps in a code fence.

    Raises:
        UserError: It has anything beside that JSON, or steps that are not the robot's skills, or the model refuses.
    """
    text = content.strip()
    if text.startswith("```") and text.endswith("```") and text.count("```") == 2:
        text = text[3:-3].removeprefix("json").strip()
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"The model's answer is not JSON alone: '{_short(content)}'.") from error
    if isinstance(data, dict) and set(data) == {"refuse"} and isinstance(data["refuse"], str):
        raise UserError(f"The model refuses: {_short(data['refuse'])}.")
    if not isinstance(data, dict) or set(data) != {"steps"}:
        raise UserError(f"The model's answer has not the form of a plan: '{_short(content)}'.")
    return loaded_steps(data["steps"], offered(abilities), "The model's plan")


def offered(abilities: Abilities) -> tuple[str, ...]:
    """Return the names of the skills that a model may use."""
    return tuple(name for name in abilities.skills if name not in PEOPLE_ONLY)


def remaining(steps: Sequence[Step], why: str) -> str:
    """Return what a model is told when a plan has failed: the steps that are left, and why."""
    left = "; ".join(step.shown() for step in steps)
    return f"An earlier plan failed at its next step, because {why}. What was left of it: {left}. Plan the rest anew."


def instructions(abilities: Abilities) -> str:
    """Return what a model is told of a robot and of the form of plans."""
    lines = [f"- {described_skill(SKILLS[name])}" for name in offered(abilities)]
    limits = abilities.limits
    where = "" if limits is None else f"Goals must be from {list(limits.low_m)} to {list(limits.high_m)} m. "
    places = "".join(f"\n- {name}" for name in abilities.places)
    text = abilities.text
    examples = "" if text is None else f"\nInstructions are such as: {'; '.join(text.examples)}."
    return (
        f'You plan for the robot {abilities.robot}. Answer with JSON alone, {{"steps": [{{"skill": NAME, ...}}]}}, with'
        ' the arguments below as further keys, or {"refuse": "why"} if the request cannot be done with these skills.'
        f" Lengths are in m, angles in rad, x forward, y left, z up. {where}The skills:\n"
        + "\n".join(lines)
        + (f"\nPlaces:{places}" if places else "")
        + examples
    )


def _short(text: str) -> str:
    line = " ".join(text.split()).rstrip(".")
    printable = "".join(letter if letter.isprintable() else "?" for letter in line)
    return printable if len(printable) <= 120 else printable[:117] + "..."
