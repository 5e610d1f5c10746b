"""Settings of the network of a vision-language-action policy."""

from __future__ import annotations

from dataclasses import dataclass

from rlstack.schema import in_order, value
from rlstack.tasks.core.camera_observations import Instruction
from rlstack.training.language.efficientnet import Pictures
from rlstack.training.language.meanings import Vectors

INSTRUCTION = Instruction.name
"""What of ``acts_without`` are the words."""


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """Size of the network."""

    pictures: Pictures = "small"
    """What convolutions begin with: the pixels, or maps of a network that was trained on ImageNet; see
    :mod:`.efficientnet`."""
    tuned: bool = False
    """Whether that network learns as well; else it stays as it is."""
    channels: tuple[int, ...] = value((24, 48, 48), at_least=1)
    """Channels of the convolutions; of an ImageNet network's maps the last two are made."""
    points: int = value(16, at_least=1)
    """Features whose positions in an image are found."""
    looks: int = value(0, at_least=0)
    """Numbers that say what there is at each of these positions. Nothing else is seen of an image then, and a simulator
    can tell what is seen, in place of the image. 0: none, and patches of the image beside the positions."""
    fine: bool = False
    """Whether maps have a cell for 2 by 2 pixels, not 4 by 4: three times the work, for things of a few pixels."""
    rows: tuple[float, float] = value((0.0, 1.0), at_least=0.0, at_most=1.0)
    """Part of an image, from its top down, that convolutions see."""
    sharpness: float = value(1.0, above=0.0)
    """Factor of the scores whose distribution's mean a feature's position is: above 1, less of what is elsewhere in the
    image draws it away."""
    tilted: bool = False
    """Whether the sentence tilts the maps of these features across the image, so that of two alike things one can be
    the left one."""
    composed: bool = False
    """Whether each word makes the convolutions look for something of its own, whatever the others are, and this adds
    up: who has seen purple things and cubes then finds a purple cube. All words together say which of them name which
    thing."""
    width: int = value(128, at_least=8)
    """Width of tokens."""
    heads: int = value(4, at_least=1)
    """Heads of attention."""
    layers: int = value(1, at_least=0)
    """Layers in which images, words and proprioception attend to each other."""
    decoder_layers: int = value(2, at_least=0)
    """Layers in which the planned steps attend to them; 0: a dense network alone plans."""
    sees_apart: bool = False
    """Whether what is seen has words of its own, read apart from those that plan: what teaches to see then changes
    nothing of how the robot acts, and the other way round. Only with ``looks``."""
    offsets: int = value(0, at_least=0)
    """Numbers, dm, that say from where the tool is to the named thing, and from there to its goal: 6 in tasks with
    blocks. A simulator's ``labels`` teach the network to guess them from what is seen, and the robot then acts by
    these, the words and its own state alone. 0: by all that is seen. Only with ``looks``, without layers and
    decoder_layers."""
    acts_without: tuple[str, ...] = ()
    """Names of observations by which the robot does not act, though what it sees may depend on them: tool_position, so
    that it acts alike wherever things are, and instruction, where the words only say which things are meant. A few
    demonstrations can be told from each other by both, and are then remembered rather than understood. Only with
    ``offsets``."""
    words: int = value(16, at_least=1)
    """Words of an instruction; further ones are dropped."""
    vectors: Vectors = "none"
    """Word vectors by which words that training never says are taken for others of like meaning; see
    :mod:`.meanings`."""

    def __post_init__(self) -> None:
        if len(self.channels) < 2:
            raise ValueError(f"channels: {list(self.channels)} is not allowed: give at least two convolutions.")
        if self.tuned and self.pictures == "small":
            raise ValueError("tuned: true is not allowed with pictures: small, which always learn.")
        in_order(self, "rows")
        if self.sees_apart and not self.looks:
            raise ValueError("sees_apart: true is not allowed with looks: 0: how to act is learned through the images.")
        if self.offsets and (not self.looks or self.layers or self.decoder_layers):
            raise ValueError(
                f"offsets: {self.offsets} is not allowed with looks: 0, or with layers or decoder_layers above 0: how"
                " to act would be learned from the images."
            )
        if self.acts_without and not self.offsets:
            raise ValueError(
                f"acts_without: {list(self.acts_without)} is not allowed with offsets: 0: what is seen tells the same."
            )
        if self.pictures != "small" and (self.fine or self.rows != (0.0, 1.0)):
            raise ValueError(f"fine and rows are not allowed with pictures: {self.pictures}: they are of pixels.")
        if self.width % self.heads:
            raise ValueError(f"heads: {self.heads} is not allowed: must divide width ({self.width}).")
