"""Instructions as a policy's node receives them: from a parameter until one arrives on the topic, in known words."""

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

OnInstruction = Callable[[Array], None]


class InstructionReceiver:
    """Receives the sentence that a policy follows; a refused one leaves the sentence before in place.

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
        for use in QUALITIES:
            node.subscriber(topics.type_of(topics.INSTRUCTION), topics.INSTRUCTION, self._hear, use)

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
        self.refusal, self.present = "", said
        for sentence in told:
            self._node.warn(f"Of the instruction '{text}', {sentence}.")
        self._on_instruction(signal.astype(float))
