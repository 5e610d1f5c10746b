import numpy as np
import pytest

from rlstack.robots import frames
from rlstack.verification.departures import Departures, departed
from rlstack.verification.runner import Trials, run

RATE = 10.0


class Recorded(Trials):
    """Trials of N robots whose position is the period's number; they record what acts on them."""

    last_command = True

    def __init__(self, steps=6, count=3):
        super().__init__(count, RATE)
        self.steps, self.acting, self.commands, self.k = steps, [], {}, 0

    def observe(self, k):
        assert k == self.k, "every period is observed once, in order"
        return np.full(len(self), k == self.steps)

    def signals(self, names):
        moving = np.full((len(self), 3), float(self.k))
        turned = frames.from_yaw(np.full(len(self), 0.1 * self.k))
        known = {"position": moving, "scan": moving, "goal_position": moving, "orientation": turned}
        return {name: known[name] for name in names}

    def command(self, k, command):
        self.commands[k] = command.copy()

    def waiting(self, command):
        return np.full_like(command, -1.0)

    def step(self, command, over):
        self.acting.append(command.copy())
        self.k += 1


class Echo:
    """Commands the sensed value."""

    def __init__(self, *inputs):
        self.inputs, self.seen = inputs, []

    def reset(self, batch=1):
        pass

    def step(self, inputs):
        self.seen.append({name: array.copy() for name, array in inputs.items()})
        return {"twist": np.asarray(inputs[self.inputs[0]], dtype=float)[:, :2]}


def driven(departures, *inputs, trials=None, seed=0):
    driver, trials = Echo(*(inputs or ("position",))), trials or Recorded()
    run(driver, departed(trials, departures, seed))
    return driver, trials


def seen(driver, name="position"):
    return [inputs[name][0, 0] for inputs in driver.seen]


def test_nothing_departs_by_default():
    trials = Recorded()
    assert departed(trials, Departures()) is trials
    driver, trials = driven(Departures())
    assert seen(driver) == [0, 1, 2, 3, 4, 5, 6] and len(trials.acting) == 6


def test_observations_are_late_and_goals_are_not():
    driver, _ = driven(Departures(observation_delay_s=0.2), "position", "goal_position")
    assert seen(driver) == [0, 0, 0, 1, 2, 3, 4]  # before the first, the first
    assert seen(driver, "goal_position") == [0, 1, 2, 3, 4, 5, 6]


def test_delays_between_periods_are_interpolated_and_scans_are_old_enough():
    driver, _ = driven(Departures(observation_delay_s=0.15), "position", "scan", "orientation")
    np.testing.assert_allclose(seen(driver), [0, 0, 0.5, 1.5, 2.5, 3.5, 4.5])
    assert seen(driver, "scan") == [0, 0, 0, 1, 2, 3, 4]
    np.testing.assert_allclose(frames.yaw(driver.seen[3]["orientation"]), 0.15, atol=1e-6)


def test_only_the_named_topics_are_late():
    driver, _ = driven(Departures(observation_delay_s=0.1, topics=("scan",)), "position", "scan")
    assert seen(driver) == [0, 1, 2, 3, 4, 5, 6] and seen(driver, "scan") == [0, 0, 1, 2, 3, 4, 5]


def test_commands_act_late_and_are_recorded_when_given():
    _, trials = driven(Departures(command_delay_s=0.2))
    assert [a[0, 0] for a in trials.acting] == [-1, -1, 0, 1, 2, 3]
    assert [trials.commands[k][0, 0] for k in range(7)] == [0, 1, 2, 3, 4, 5, 6]


def test_two_commands_in_a_period_act_as_their_mean():
    _, trials = driven(Departures(command_delay_s=0.025))
    np.testing.assert_allclose([a[0, 0] for a in trials.acting], [-0.25, 0.75, 1.75, 2.75, 3.75, 4.75])


def test_the_driver_steps_every_second_period_and_its_command_holds():
    driver, trials = driven(Departures(period=2))
    assert seen(driver) == [0, 2, 4, 6]
    assert [a[0, 0] for a in trials.acting] == [0, 0, 2, 2, 4, 4]
    assert sorted(trials.commands) == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("steps", [5, 6, 7])
def test_trials_may_end_between_two_periods_of_the_driver(steps):
    _, trials = driven(Departures(period=3, observation_delay_s=0.1), trials=Recorded(steps))
    assert len(trials.acting) == steps and sorted(trials.commands) == list(range(steps + 1))


def test_of_lost_messages_the_last_one_holds():
    driver, trials = driven(Departures(lost=0.5), "goal_position", "position", trials=Recorded(400, 20))
    positions = np.stack([inputs["position"][:, 0] for inputs in driver.seen])
    fresh = positions == np.arange(401)[:, None]
    assert fresh[0].all() and 0.45 < fresh[1:].mean() < 0.55
    held = positions[1:] == positions[:-1]
    assert (held | fresh[1:]).all()
    acting = np.stack([a[:, 0] for a in trials.acting])
    assert 0.45 < (acting == np.arange(400)[:, None]).mean() < 0.55
    assert (np.diff(acting, axis=0) >= 0.0).all()


def test_jitter_delays_each_message_by_itself_and_time_does_not_run_back():
    driver, _ = driven(Departures(observation_delay_s=0.1, observation_jitter_s=0.2), trials=Recorded(300, 10))
    positions = np.stack([inputs["position"][:, 0] for inputs in driver.seen])
    ages = np.arange(301)[:, None] - positions
    assert 1.0 - 1e-9 <= ages[10:].min() < 1.1 and 2.5 < ages[10:].max() <= 3.0 + 1e-9
    assert (np.diff(positions, axis=0) > -1e-9).all()
    assert len(np.unique(ages[50])) == 10


def test_images_stay_images_under_noise():
    class Looking(Recorded):
        def signals(self, names):
            return {"scene_image": np.full((len(self), 4, 4, 3), 250, np.uint8)}

    driver, _ = driven(Departures(noise={"scene_image": 8.0}), "scene_image", trials=Looking(20, 2))
    images = np.array([inputs["scene_image"] for inputs in driver.seen])
    assert images.dtype == np.uint8 and images.max() == 255 and 200 < images.min() < 240


def test_bias_is_constant_and_noise_is_white():
    driver, _ = driven(Departures(bias={"position": 0.5}, noise={"position": 0.1}), trials=Recorded(500, 4))
    error = np.stack([inputs["position"] for inputs in driver.seen]) - np.arange(501)[:, None, None]
    np.testing.assert_allclose(np.abs(error.mean(axis=0)), 0.5, atol=0.02)
    np.testing.assert_allclose(error.std(axis=0), 0.1, atol=0.015)


def test_a_quaternion_is_biased_by_angles():
    driver, _ = driven(Departures(bias={"orientation": 0.1}), "position", "orientation")
    turned = driver.seen[0]["orientation"]
    np.testing.assert_allclose(np.linalg.norm(turned, axis=1), 1.0)
    np.testing.assert_allclose(2.0 * np.arccos(turned[:, 3]), 0.1 * np.sqrt(3.0), rtol=1e-6)


def test_equal_seeds_depart_equally():
    random = Departures(lost=0.3, observation_jitter_s=0.3, noise={"position": 1.0})
    first, again, other = (driven(random, seed=seed)[0].seen for seed in (1, 1, 2))
    np.testing.assert_array_equal([i["position"] for i in first], [i["position"] for i in again])
    assert not np.array_equal([i["position"] for i in first], [i["position"] for i in other])


class Doubled:
    def begin(self, count, rate_hz, rng):
        assert (count, rate_hz) == (3, RATE)
        return lambda k, signals: {**signals, "position": 2.0 * signals["position"]}


def test_a_kinds_own_change_comes_before_the_delay():
    driver, _ = driven(Departures(changes=(Doubled(),), observation_delay_s=0.1))
    assert seen(driver) == [0, 0, 2, 4, 6, 8, 10]


def test_a_node_knows_the_age_of_what_it_received():
    def extrapolated(signals, ages_s):
        return {"position": signals["position"] + RATE * ages_s["odom"][:, None]}

    driver, _ = driven(Departures(observation_delay_s=0.2, received=extrapolated))
    assert seen(driver)[2:] == [2, 3, 4, 5, 6]


class Glancing(Echo):
    """Takes the position in every second period only."""

    @property
    def due(self):
        return self.inputs if len(self.seen) % 2 == 0 else self.inputs[:1]


@pytest.mark.parametrize(("departures", "late"), [(Departures(), 0.0), (Departures(observation_delay_s=0.1), 1.0)])
def test_the_past_of_what_a_driver_takes_now_and_then_is_known(departures, late):
    driver, trials = Glancing("scan", "position"), Recorded()
    asked, signals = [], trials.signals
    trials.signals = lambda names: (asked.append(set(names)), signals(names))[1]
    run(driver, departed(trials, departures))
    taken = [inputs.get("position", np.full((3, 3), np.nan))[0, 0] for inputs in driver.seen]
    np.testing.assert_array_equal(taken, [max(k - late, 0.0) if k % 2 == 0 else np.nan for k in range(7)])
    assert [("position" in names) for names in asked] == [late > 0.0 or k % 2 == 0 for k in range(7)]
