"""A replay buffer against a list of episodes, whatever is done to it; and what it refuses."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.data.replay import Overwritten, ReplayBuffer, ReplayReader, ReplaySpec, fields
from rlstack.errors import UserError

OBSERVATIONS = fields(position=((3,), "float32"), image=((4, 5, 3), "uint8"))
TRANSITIONS = fields(action=((2,), "float32"), reward=((), "float64"), terminated=((), "bool"))


def spec(capacity: int = 8, lanes: int = 1) -> ReplaySpec:
    return ReplaySpec(OBSERVATIONS, TRANSITIONS, capacity, lanes)


def observation(mark: int) -> dict:
    return {"position": np.full(3, mark, np.float32), "image": np.full((4, 5, 3), mark % 251, np.uint8)}


def transition(mark: int) -> dict:
    return {"action": [mark, -mark], "reward": mark / 2, "terminated": mark % 2 == 0}


class Model:
    """What the buffer should hold: for each lane its last steps, as (episode, observation, transition)."""

    def __init__(self, spec: ReplaySpec) -> None:
        self.slots = spec.slots
        self.lanes: list[list[list[int]]] = [[] for _ in range(spec.lanes)]
        self.episode = [-1] * spec.lanes

    def begin(self, lane: int, mark: int) -> None:
        self.episode[lane] += 1
        self.lanes[lane].append([self.episode[lane], mark, -1])

    def add(self, lane: int, before: int, mark: int) -> None:
        self.lanes[lane][-1][2] = before
        self.lanes[lane].append([self.episode[lane], mark, -1])

    def steps(self, lane: int) -> dict[int, list[int]]:
        """Return the steps held, by their number in the lane."""
        written = self.lanes[lane]
        return {number: written[number] for number in range(max(0, len(written) - self.slots), len(written))}

    def transitions(self) -> dict[int, tuple[int, int, int]]:
        """Return the marks of observation, transition and next observation by index."""
        found = {}
        for lane in range(len(self.lanes)):
            held = self.steps(lane)
            for number, (episode, mark, between) in held.items():
                if number + 1 in held and held[number + 1][0] == episode:
                    found[number * len(self.lanes) + lane] = (mark, between, held[number + 1][1])
        return found


DOINGS = st.lists(st.tuples(st.sampled_from(["begin", "add", "add", "add", "reopen"]), st.integers(0, 2)), max_size=60)


@settings(deadline=None, max_examples=60)
@given(doings=DOINGS, capacity=st.integers(2, 9), lanes=st.integers(1, 3))
def test_it_holds_the_last_steps_whatever_is_written(doings: list[tuple[str, int]], capacity: int, lanes: int) -> None:
    asked = spec(capacity * lanes, lanes)
    model = Model(asked)
    with TemporaryDirectory() as folder:
        buffer = ReplayBuffer(folder, asked)
        running = [False] * lanes
        for mark, (what, lane) in enumerate(doings):
            lane %= lanes
            if what == "reopen":
                buffer.close()
                buffer = ReplayBuffer(folder, asked)
                running = [False] * lanes
            elif what == "begin" or not running[lane]:
                index = buffer.begin(observation(mark), lane)
                model.begin(lane, mark)
                assert index == (len(model.lanes[lane]) - 1) * lanes + lane
                running[lane] = True
            else:
                index = buffer.add(transition(mark), observation(mark + 100), lane)
                model.add(lane, mark, mark + 100)
                assert index == (len(model.lanes[lane]) - 2) * lanes + lane
            agree(buffer, model)
        agree(ReplayReader(folder), model)
        buffer.close()


def agree(buffer: ReplayReader, model: Model) -> None:
    held = model.transitions()
    assert len(buffer) == len(held)
    indices = buffer.indices()
    assert sorted(indices.tolist()) == sorted(held)
    if not held:
        with pytest.raises(UserError, match="no whole transition yet"):
            buffer.sample(3, np.random.default_rng(0))
        return
    matches(buffer.gather(indices), held)
    matches(buffer.sample(5, np.random.default_rng(0)), held)

    lanes = buffer.spec.lanes
    episodes = {
        index: model.lanes[index % lanes][index // lanes][0] * lanes + index % lanes for index in indices.tolist()
    }
    assert buffer.episode_of(indices).tolist() == [episodes[i] for i in indices.tolist()]
    first, last = buffer.bounds(indices)
    ends = {tuple(row) for row in buffer.episodes().tolist()}
    for index, begin, end in zip(indices.tolist(), first.tolist(), last.tolist()):
        assert (begin, end) in ends
        assert begin <= index < end
        same = [
            n for n, step in model.steps(index % lanes).items() if step[0] * lanes + index % lanes == episodes[index]
        ]
        assert (begin // lanes, end // lanes) == (min(same), max(same))
    later = buffer.later(indices, np.random.default_rng(1))
    assert ((later > indices) & (later <= last) & ((later - indices) % lanes == 0)).all()
    marks = [model.lanes[i % lanes][i // lanes][1] for i in later.tolist()]
    assert buffer.observe(later)["position"][:, 0].tolist() == marks


def matches(batch: dict[str, np.ndarray], held: dict[int, tuple[int, int, int]]) -> None:
    assert set(batch) == {"position", "image", "next_position", "next_image", "action", "reward", "terminated", "index"}
    for row, index in enumerate(batch["index"].tolist()):
        mark, between, after = held[index]
        for prefix, expected in (("", mark), ("next_", after)):
            for name, values in observation(expected).items():
                np.testing.assert_array_equal(batch[prefix + name][row], values)
        for name, values in transition(between).items():
            np.testing.assert_array_equal(batch[name][row], values)


def fill(buffer: ReplayBuffer, episodes: int, length: int) -> None:
    for episode in range(episodes):
        buffer.begin(observation(100 * episode))
        for step in range(length):
            buffer.add(transition(step), observation(100 * episode + step + 1))


def test_every_transition_is_drawn_as_often(tmp_path: Path) -> None:
    buffer = ReplayBuffer(tmp_path, spec(100))
    for length in (1, 30, 2, 0, 17):
        fill(buffer, 1, length)
    drawn = buffer.draw(50_000, np.random.default_rng(3))
    found, counts = np.unique(drawn, return_counts=True)
    assert len(found) == len(buffer) == 50
    # of each 1000 on average, with a standard deviation of 31.3
    assert abs(counts - 1000).max() < 5 * 31.3


def test_a_few_transitions_among_many_empty_episodes_are_found(tmp_path: Path) -> None:
    buffer = ReplayBuffer(tmp_path, spec(5000))
    buffer.begin(observation(1))
    expected = buffer.add(transition(1), observation(2))
    for _ in range(4900):
        buffer.begin(observation(3))
    assert buffer.draw(300, np.random.default_rng(0)).tolist() == [expected] * 300


def test_several_environments_write_their_lanes_together(tmp_path: Path) -> None:
    buffer = ReplayBuffer(tmp_path, spec(40, lanes=4))
    lanes = np.arange(4)
    marks = np.array([10.0, 20.0, 30.0, 40.0])
    image = np.zeros((4, 4, 5, 3), np.uint8)

    def seen(extra: float) -> dict:
        return {"position": np.repeat(marks[:, None] + extra, 3, 1), "image": image}

    buffer.begin_lanes(seen(0), lanes)
    for step in range(1, 4):
        after = {"action": np.zeros((4, 2)), "reward": marks + step, "terminated": np.zeros(4, bool)}
        buffer.add_lanes(after, seen(step), lanes)
    batch = buffer.gather(buffer.indices())
    assert len(buffer) == 12
    np.testing.assert_array_equal(batch["next_position"] - batch["position"], 1)
    np.testing.assert_array_equal(batch["reward"], batch["next_position"][:, 0])
    with pytest.raises(UserError, match="twice"):
        buffer.begin_lanes(seen(0), [0, 1, 1, 2])
    with pytest.raises(UserError, match="lanes 0 to 3"):
        buffer.begin(observation(0), lane=4)


def test_an_earlier_batch_is_filled_again(tmp_path: Path) -> None:
    buffer = ReplayBuffer(tmp_path, spec(50))
    fill(buffer, 3, 9)
    rng = np.random.default_rng(0)
    batch = buffer.sample(16, rng)
    again = buffer.sample(16, rng, out=batch)
    assert all(again[name] is batch[name] for name in batch if name != "index")
    np.testing.assert_array_equal(again["position"], buffer.gather(again["index"])["position"])


def test_steps_written_over_are_refused(tmp_path: Path) -> None:
    buffer = ReplayBuffer(tmp_path, spec(8))
    fill(buffer, 1, 3)
    old = buffer.indices()
    with pytest.raises(Overwritten, match="ends an episode"):
        fill(buffer, 1, 1)
        buffer.gather([3])
    fill(buffer, 1, 7)
    for ask in (buffer.gather, buffer.observe, buffer.episode_of, buffer.bounds):
        with pytest.raises(Overwritten, match="3 of 3"):
            ask(old)
    with pytest.raises(Overwritten):
        buffer.later(np.array([buffer.indices()[-1] + 1]), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"capacity": 9}, r"9 steps|8 steps in 1 lanes, not 9 in 1"),
        ({"lanes": 2}, "8 steps in 1 lanes, not 8 in 2"),
        ({"observations": fields(position=((3,), "float32"))}, "observations have 'image', which is not asked for"),
        ({"transitions": {**TRANSITIONS, **fields(intervened=((), "bool"))}}, "transitions lack 'intervened'"),
        (
            {"observations": {**OBSERVATIONS, **fields(image=((8, 8, 3), "uint8"))}},
            r"'image' is uint8\[4, 5, 3\], not uint8\[8, 8, 3\]",
        ),
    ],
)
def test_a_buffer_of_something_else_is_refused_by_name(tmp_path: Path, change: dict, message: str) -> None:
    ReplayBuffer(tmp_path, spec()).close()
    wanted = {"observations": OBSERVATIONS, "transitions": TRANSITIONS, "capacity": 8, **change}
    with pytest.raises(UserError, match=message):
        ReplayBuffer(tmp_path, ReplaySpec(**wanted))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ({"action": [0, 0], "reward": 0.0}, observation(1), r"\['action', 'reward'\] where the replay buffer has"),
        ({**transition(1), "action": [0, 0, 0]}, observation(1), r"'action' has the shape \(3,\), not \(2,\)"),
        ({**transition(1), "action": 0}, observation(1), r"'action' has the shape \(\), not \(2,\)"),
        (transition(1), {**observation(1), "image": np.zeros((4, 5, 3))}, "'image' is float64, which"),
    ],
)
def test_a_step_that_does_not_fit_changes_nothing(tmp_path: Path, before: dict, after: dict, message: str) -> None:
    buffer = ReplayBuffer(tmp_path, spec())
    buffer.begin(observation(0))
    buffer.add(transition(7), observation(1))
    with pytest.raises(UserError, match=message):
        buffer.add(before, after)
    assert buffer.indices().tolist() == [0]
    buffer.add(transition(8), observation(2))
    assert buffer.gather(buffer.indices())["reward"].tolist() == [3.5, 4.0]


def test_an_episode_must_begin_with_an_observation(tmp_path: Path) -> None:
    buffer = ReplayBuffer(tmp_path, spec())
    with pytest.raises(UserError, match="begin an episode"):
        buffer.add(transition(0), observation(0))
    fill(buffer, 1, 2)
    buffer.close()
    with pytest.raises(UserError, match="closed"):
        buffer.add(transition(0), observation(0))
    with pytest.raises(UserError, match="begin an episode"):
        ReplayBuffer(tmp_path, spec()).add(transition(0), observation(0))


def test_there_is_one_writer_at_a_time(tmp_path: Path) -> None:
    with ReplayBuffer(tmp_path, spec()) as first:
        fill(first, 1, 2)
        with pytest.raises(UserError, match="one writer at a time"):
            ReplayBuffer(tmp_path, spec())
        assert len(ReplayReader(tmp_path)) == 2
    assert len(ReplayBuffer(tmp_path, spec())) == 2


def test_what_is_no_buffer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a replay buffer"):
        ReplayReader(tmp_path)
    ReplayBuffer(tmp_path, spec()).close()
    text = (tmp_path / "replay.json").read_text()
    for damage, message in (
        (text[:40], "cannot be read"),
        (text.replace('"version": 1', '"version": 9'), "layout 1, not 9"),
        (text.replace('"capacity"', '"capacitance"'), "capacity"),
    ):
        (tmp_path / "replay.json").write_text(damage)
        with pytest.raises(UserError, match=message):
            ReplayReader(tmp_path)


@pytest.mark.parametrize("name", ["ring.bin", "field.image.bin"])
def test_files_that_are_cut_off_are_refused(tmp_path: Path, name: str) -> None:
    ReplayBuffer(tmp_path, spec()).close()
    with (tmp_path / name).open("r+b") as file:
        file.truncate(50)
    with pytest.raises(UserError, match=f"{name} has 50 bytes"):
        ReplayReader(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(UserError, match=f"Cannot open .*{name}"):
        ReplayReader(tmp_path)


def test_a_ring_that_says_impossible_things_is_refused(tmp_path: Path) -> None:
    ReplayBuffer(tmp_path, spec()).close()
    numbers = np.memmap(tmp_path / "ring.bin", np.int64, "r+")
    numbers[:2] = 5, 6  # head before tail
    numbers.flush()
    with pytest.raises(UserError, match=r"ring\.bin is damaged"):
        ReplayBuffer(tmp_path, spec())


def test_a_disk_without_room_is_said_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Free some space"):
        ReplayBuffer(tmp_path, spec(10**15))
    with ReplayBuffer(tmp_path, spec(10)) as buffer:  # what was begun is no obstacle
        fill(buffer, 1, 3)
        assert len(buffer) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((OBSERVATIONS, TRANSITIONS, 7, 4), "less than two steps"),
        (({}, TRANSITIONS, 7), "at least one field"),
        ((OBSERVATIONS, fields(next_position=((), "bool")), 7), "next_position"),
        ((OBSERVATIONS, fields(index=((), "int64")), 7), "'index'"),
        (({"../up": OBSERVATIONS["image"]}, TRANSITIONS, 7), "cannot name a field"),
    ],
)
def test_a_spec_that_cannot_be_is_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ReplaySpec(*arguments)


def test_fields_have_types_and_elements() -> None:
    with pytest.raises(ValueError, match="'text' is not a type"):
        fields(action=((2,), "text"))
    with pytest.raises(ValueError, match="no elements"):
        fields(action=((2, 0), "float32"))


def test_its_room_on_disk_is_what_it_says(tmp_path: Path) -> None:
    asked = spec(100, lanes=3)
    ReplayBuffer(tmp_path, asked).close()
    assert sum(file.stat().st_size for file in tmp_path.glob("*.bin")) == asked.bytes
