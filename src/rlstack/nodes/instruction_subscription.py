"""Instructions as a policy's node receives them, in known words, and what it says of the one that it follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.instruction import TextInput, encoded, understood
from rlstack.nodes.goal_subscriptions import QUALITIES
from rlstack.nodes.parameters import Parameter

INSTRUCTION_PARAMETER = Parameter(
    "instruction",
    "",
    "What the policy is to do until an instruction arrives on the topic; empty: wait for the topic.",
    live=True,
)

GIVEN_BY = '--instruction "{0}" or rlstack agent "arm, {0}"'
"""How a person gives a sentence: as `rlstack up deploy` is started, or while it runs."""

OnInstruction = Callable[[Array], None]


class InstructionReceiver:
    """Receives the sentence that a policy follows; a refused one leaves the sentence before in place.

    It publishes on ``instruction/active`` what the policy follows, and logs it.

    Args:
        node: The node (:class:`rlstack.nodes.runtime.ManagedNode`), which has :data:`INSTRUCTION_PARAMETER`.
        text: The words that the policy knows.
        on_instruction: Called with the signal ``instruction`` (128,).

    Raises:
        UserError: The parameter is no instruction.
    """

    def __init__(self, node: Any, text: TextInput, on_instruction: OnInstruction) -> None:
        self._node, self._text, self._on_instruction = node, text, on_instruction
        self.present = ""
        """The sentence that the policy follows; empty: none yet."""
        self.refusal = ""
        """Why the last one was refused; empty: it was not."""
        self._default, self._heard = "", ""
        if given := node.parameters["instruction"]:
            try:
                encoded(given)
            except ValueError as error:
                raise UserError(f"instruction: {error}.") from error
        self._type = topics.type_of(topics.INSTRUCTION_ACTIVE)
        self._active = node.publisher(self._type, topics.INSTRUCTION_ACTIVE, "latched")
        for use in QUALITIES:
            node.subscriber(topics.type_of(topics.INSTRUCTION), topics.INSTRUCTION, self._hear, use)

    @property
    def awaited(self) -> str:
        """What to do while there is no sentence yet; empty: there is one."""
        if self.present:
            return ""
        said = self._text.examples[0] if self._text.examples else "..."
        return f"waiting for an instruction: {GIVEN_BY.format(said)}"

    def start(self) -> None:
        """Follow the parameter, if it is given, and say what the policy follows or waits for."""
        self.use_default()
        if not self.present:
            self._active.publish(self._type(data=""))
            self._node.get_logger().info(self.awaited)

    def use_default(self) -> None:
        """Follow the parameter, which is live, unless one has arrived on the topic since it was set."""
        given = self._node.parameters["instruction"]
        if given and given != self._default:
            self._default, self._heard = given, ""
            self._follow(given)

    def _hear(self, message: Any) -> None:
        if message.data != self._heard:  # a latching publisher's message comes by both subscriptions
            self._heard, self._default = message.data, self._node.parameters["instruction"]
            self._follow(message.data)

    def _follow(self, text: str) -> None:
        try:
            said, told = understood(text, self._text.words, self._text.meanings)
            signal = encoded(said)
        except ValueError as error:
            self.refusal = f"an instruction was refused: {error}"
            self._node.warn(f"{self.refusal[0].upper()}{self.refusal[1:]}.")
            return
        for sentence in told:
            self._node.warn(f"Of the instruction '{text}', {sentence}.")
        if said != self.present:
            self._node.get_logger().info(f"instruction: {said}")
        self.refusal, self.present = "", said
        self._on_instruction(signal.astype(float))
        self._active.publish(self._type(data=said))
