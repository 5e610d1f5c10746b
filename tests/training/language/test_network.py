"""The network: what it depends on, and its graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from rlstack.errors import UserError
from rlstack.training.language.grounding import apart, told, unlike_looks
from rlstack.training.language.network import Network
from rlstack.training.language.network_settings import NetworkSettings

SETTINGS = NetworkSettings(channels=(8, 8), points=4, width=16, heads=2, layers=1, decoder_layers=1, words=5)


def network(cameras: int = 1) -> Network:
    torch.manual_seed(0)
    return Network(3, (cameras, 31, 40, 3), 12, 4, SETTINGS).eval()


def given(cameras: int = 1, batch: int = 2) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    state = torch.randn(batch, 3, generator=draw)
    tokens = torch.tensor([[2.0, 3.0, 4.0, 0.0, 0.0]]).repeat(batch, 1)
    return state, tokens, torch.randint(0, 256, (batch, cameras, 31, 40, 3), generator=draw).float()


@pytest.mark.parametrize("cameras", [1, 2])
def test_depends_on_each_of_state_words_their_order_and_images(cameras: int) -> None:
    net = network(cameras)
    state, tokens, images = given(cameras)
    with torch.no_grad():
        here = net(state, tokens, images)
        assert here.shape == (2, 4, 16)
        others = [(state + 1.0, tokens, images), (state, tokens.flip(1).sort(1, descending=True)[0], images)]
        others += [(state, torch.tensor([[3.0, 2.0, 4.0, 0.0, 0.0]] * 2), images), (state, tokens, 255.0 - images)]
        for other in others:
            assert (net(*other) - here).abs().max() > 1e-4
        if cameras == 2:
            assert (net(state, tokens, images.flip(1)) - here).abs().max() > 1e-4


def test_absent_words_do_not_count_and_no_word_is_finite() -> None:
    net = network()
    state, tokens, images = given()
    with torch.no_grad():
        here = net(state, tokens, images)
        net.word.weight[0] += 1.0
        torch.testing.assert_close(net(state, tokens, images), here)
        assert torch.isfinite(net(state, torch.zeros_like(tokens), images)).all()


def test_standardises_pixels_and_bytes_are_the_same_as_floats() -> None:
    net = network()
    state, tokens, images = given(batch=8)
    with torch.no_grad():
        before = net(state, tokens, images)
        torch.testing.assert_close(net(state, tokens, images.to(torch.uint8)), before)
        net.standardise_by(images)
        planes = net._scaled(images).permute(0, 1, 3, 4, 2).reshape(-1, 4)
    torch.testing.assert_close(planes.mean(dim=0), torch.zeros(4), atol=1e-4, rtol=0.0)
    torch.testing.assert_close(planes.std(dim=0), torch.ones(4), atol=1e-3, rtol=0.0)
    net.standardise_by(torch.full_like(images, 7.0))  # nothing to be seen: no division by 0
    assert torch.isfinite(net(state, tokens, images)).all()


def test_all_weights_learn() -> None:
    net = network()
    net(*given()).square().sum().backward()
    assert [name for name, weight in net.named_parameters() if weight.grad is None] == []


def test_a_map_is_taught_where_the_object_is() -> None:
    net = network()
    state, tokens, images = given(batch=16)
    places = torch.rand(16, 2) - 0.5
    ahead = net.cells(0)
    assert ahead.abs().max() < 1.0 and len(ahead) == len(net.place(state, tokens, images).maps[0][0, 0])
    middle = ((places + 1.0) * 0.5 * images.shape[3]).long()
    for one, (right, down) in zip(images, middle.tolist()):
        one[:] = 60.0
        one[0, down - 1 : down + 2, right - 1 : right + 2, 0] = 250.0
    net.standardise_by(images)
    optimiser = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(150):
        found = torch.log_softmax(net.place(state, tokens, images).maps[0][:, 0], dim=-1)
        wanted = torch.softmax((ahead - places[:, None]).square().sum(dim=-1) * -200.0, dim=-1)
        loss = -(wanted * found).sum(dim=-1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        points = net.place(state, tokens, images).points[0][:, :2]
    assert (points - places).abs().mean() < 0.1, "the first position is the object's, right then down"


def test_a_sentence_tells_the_left_one_of_two_alike_things() -> None:
    torch.manual_seed(0)
    net = Network(3, (1, 31, 40, 3), 12, 4, replace(SETTINGS, tilted=True)).eval()
    state, tokens, images = given(batch=1)
    images[:] = 60.0
    images[0, 0, 14:18, 8:12], images[0, 0, 14:18, 28:32] = 250.0, 250.0
    net.standardise_by(images)
    film = net.eyes[0].film[2]  # type: ignore[index]
    assert isinstance(film, torch.nn.Linear)
    found = []
    for tilt in (-40.0, 0.0, 40.0):
        with torch.no_grad():
            film.bias[-2 * SETTINGS.points] = tilt
            found.append(net.place(state, tokens, images).points[0][0, 0].item())
    assert found[0] < found[1] < found[2] and found[2] - found[0] > 0.5
    net(state, tokens, images).square().sum().backward()
    assert film.weight.grad is not None and film.weight.grad[-2 * SETTINGS.points :].abs().sum() > 0.0


def test_finer_maps_have_the_same_weights_and_the_same_scores_where_coarse_ones_have_cells() -> None:
    three = replace(SETTINGS, channels=(8, 8, 8))
    torch.manual_seed(0)
    coarse = Network(3, (1, 36, 40, 3), 12, 4, three).eval()
    fine = Network(3, (1, 36, 40, 3), 12, 4, replace(three, fine=True, rows=(1 / 9, 1.0), sharpness=2.0)).eval()
    weights = {**coarse.state_dict(), "eyes.0.where.grid": fine.state_dict()["eyes.0.where.grid"]}
    fine.load_state_dict(weights)
    state, tokens, _ = given()
    images = torch.randint(0, 256, (2, 1, 36, 40, 3), generator=torch.Generator().manual_seed(1)).float()
    with torch.no_grad():
        there, here = coarse.place(state, tokens, images), fine.place(state, tokens, images)
    apart = torch.cdist(coarse.cells(0), fine.cells(0))
    same, matched = apart.argmin(dim=1), apart.amin(dim=1) < 1e-5
    assert matched.sum() >= 0.7 * len(matched) and len(fine.cells(0)) > 2 * len(coarse.cells(0))
    torch.testing.assert_close(here.maps[0][..., same[matched]], there.maps[0][..., matched])
    share = torch.softmax(2.0 * here.maps[0], dim=-1)
    torch.testing.assert_close(here.points[0][:, :8], (share @ fine.cells(0)).flatten(1))


def test_with_looks_nothing_but_things_is_seen_and_what_is_told_of_them_stands_for_the_images() -> None:
    torch.manual_seed(0)
    net = Network(3, (2, 31, 40, 3), 12, 4, replace(SETTINGS, points=2, looks=3)).eval()
    state, tokens, images = given(2)
    with torch.no_grad():
        sight = net.sight(tokens, images)
        assert sight.shape == (2, 2, 2 * (2 + 3))
        torch.testing.assert_close(net(state, tokens, sight), net(state, tokens, images))
    features, place = net.both(state, tokens, images)
    features.square().sum().backward(retain_graph=True)
    eyes = {name: one.grad for name, one in net.named_parameters() if ".layers." in name or ".like." in name}
    assert len(eyes) > 8 and all(grad is None for grad in eyes.values()), "what is planned teaches nothing to see"
    places = torch.zeros(2, 2, 2, 5)
    places[:, :, 1, 0] = 2.0  # not there
    wrong = unlike_looks(net, place.points, places)
    first = torch.stack(place.points, dim=1)[..., 2:5]
    torch.testing.assert_close(wrong, first.square().mean())
    wrong.backward()
    assert all(one.grad is not None for name, one in net.named_parameters() if ".like." in name)
    assert not net.eyes[0].point.weight.grad.any(), "looks do not move where things are found"  # type: ignore[union-attr]


@pytest.mark.parametrize("looks", [0, 3])
def test_distance_is_from_places_that_are_in_the_image_to_the_positions_of_the_first_points(looks: int) -> None:
    torch.manual_seed(0)
    net = Network(3, (2, 31, 40, 3), 12, 4, replace(SETTINGS, points=3, looks=looks)).eval()
    place = net.place(*given(2))
    share = torch.stack([torch.softmax(net.settings.sharpness * one, dim=-1) for one in place.maps], dim=1)
    found = torch.stack([share[:, k] @ net.cells(k) for k in range(2)], dim=1)[:, :, :2].detach()
    places = found + torch.tensor([0.03, -0.04])
    places[0, :, 1] = 2.0  # not there
    wrong = apart(net, place.points, places)
    torch.testing.assert_close(wrong.detach(), torch.tensor(0.05), rtol=1e-3, atol=0.0)
    wrong.backward()
    grad = net.eyes[1].point.weight.grad  # type: ignore[union-attr]
    assert grad is not None and grad[0].any() and not grad[2].any()  # type: ignore[index]


def test_what_words_look_for_adds_up_whatever_the_others_are() -> None:
    torch.manual_seed(0)
    net = Network(3, (1, 31, 40, 3), 12, 4, replace(SETTINGS, composed=True)).eval()
    assert net.naming is not None

    def modulation(*words: float) -> torch.Tensor:
        tokens = torch.tensor([[*words, *[0.0] * (5 - len(words))]])
        return net.eyes[0].film(net._asked(tokens, *net.read(tokens)))  # type: ignore[operator, union-attr]

    with torch.no_grad():
        apart = [modulation(word) - modulation() for word in (2.0, 3.0)]
        both = modulation(2.0, 3.0) - modulation()
        assert (both - sum(apart)).abs().max() > 1e-4, "which words name a thing is read from all of them"
        torch.nn.init.zeros_(net.naming.weight)
        apart = [modulation(word) - modulation() for word in (2.0, 3.0)]
        torch.testing.assert_close(modulation(2.0, 3.0) - modulation(), apart[0] + apart[1])
    net(*given()).square().sum().backward()
    assert net.naming.weight.grad is not None and net.naming.weight.grad.abs().sum() > 0.0


def test_what_is_told_is_about_right_where_something_is_and_anything_elsewhere() -> None:
    places = torch.full((500, 1, 2, 5), 0.5)
    places[:, :, 1, :2] = 2.0
    heard = told(places, 0.01, torch.Generator().manual_seed(0)).reshape(500, 2, 5)
    assert 0.009 < heard[:, 0, :2].std() < 0.011 and 0.2 < heard[:, 0, 2:].std() < 0.3
    assert (heard[:, 0].mean(dim=0) - 0.5).abs().max() < 0.05
    assert heard[:, 1].abs().max() <= 1.0 and heard[:, 1].std() > 0.5


def test_refuses_sizes_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="heads"):
        NetworkSettings(width=100, heads=3)
    with pytest.raises(ValueError, match="channels"):
        NetworkSettings(channels=(8,))
    with pytest.raises(ValueError, match="sees_apart"):
        NetworkSettings(sees_apart=True)
    with pytest.raises(ValueError, match="offsets: 6 is not allowed with looks: 0"):
        NetworkSettings(offsets=6)
    with pytest.raises(ValueError, match=r"offsets: 6 is not allowed with .*decoder_layers above 0"):
        NetworkSettings(offsets=6, looks=3, layers=0, decoder_layers=1)
    with pytest.raises(ValueError, match="rows"):
        NetworkSettings(rows=(0.9, 0.1))
    with pytest.raises(ValueError, match="pictures"):
        NetworkSettings(pictures="efficientnet-lite0", fine=True)
    with pytest.raises(UserError, match="more of an image"):
        Network(3, (1, 31, 40, 3), 12, 4, replace(SETTINGS, rows=(0.0, 0.1)))


@pytest.mark.parametrize(
    ("cameras", "changed"),
    [(1, {}), (2, {}), (1, {"composed": True}), (1, {"composed": True, "looks": 2, "sees_apart": True})],
)
def test_what_was_seen_stands_for_the_images_and_depends_on_the_eyesight_alone(
    cameras: int, changed: dict[str, Any]
) -> None:
    torch.manual_seed(0)
    net = Network(3, (cameras, 31, 40, 3), 12, 4, replace(SETTINGS, **changed)).eval()
    state, tokens, images = given(cameras)
    with torch.no_grad():
        seen = net.sight(tokens, images)
        assert seen.shape[:2] == (2, cameras)
        torch.testing.assert_close(net(state, tokens, seen), net(state, tokens, images))
        for one in set(net.parameters()) - set(net.eyesight()):
            one.add_(0.1)
        assert torch.equal(net.sight(tokens, images), seen)
    needed = net.sight(tokens, images).sum()
    assert all(one is not None for one in torch.autograd.grad(needed, net.eyesight(), allow_unused=True))


def test_who_sees_apart_plans_by_none_of_what_sees() -> None:
    torch.manual_seed(0)
    net = Network(3, (1, 31, 40, 3), 12, 4, replace(SETTINGS, composed=True, looks=2, sees_apart=True)).eval()
    state, tokens, images = given(1)
    seen = net.sight(tokens, images).detach()
    for planned in (net(state, tokens, seen), net(state, tokens, images), net.place(state, tokens, images).feature):
        by = torch.autograd.grad(planned.sum(), [*net.eyesight()], allow_unused=True)
        assert all(one is None or not one.any() for one in by)
    points, maps = net.found(tokens, images)
    plans = [one for one in net.parameters() if not any(one is other for other in net.eyesight())]
    by = torch.autograd.grad(points[0].sum() + maps[0].sum(), plans, allow_unused=True)
    assert all(one is None for one in by)


def test_acts_without_what_it_is_told_to_and_sees_with_it() -> None:
    torch.manual_seed(0)
    settings = replace(SETTINGS, looks=2, layers=0, decoder_layers=0, offsets=3, acts_without=("place",))
    net = Network(3, (1, 31, 40, 3), 12, 4, settings, acts_without=[0, 1]).eval()
    state, tokens, images = given(1)
    state.requires_grad_(True)
    place = net.place(state, tokens, images)
    (seen,) = torch.autograd.grad(place.feature.square().sum(), state)
    (acted,) = torch.autograd.grad(net(state, tokens, images).square().sum(), state)
    assert seen.all() and acted[:, 2].all() and not acted[:, :2].any()
    assert "felt" not in net.state_dict(), "runs and files of before have none"
    wordless = Network(3, (1, 31, 40, 3), 12, 4, replace(settings, acts_without=("instruction",))).eval()
    wordless.load_state_dict(net.state_dict())
    other = tokens.flip(1)
    with torch.no_grad():
        assert not torch.equal(net(state, tokens, images), net(state, other, images))
        assert not torch.equal(wordless(state, tokens, images), wordless(state, other, images)), (
            "words say what is seen"
        )
        for one in (net, wordless):
            one.offsets.weight.zero_()
        assert not torch.equal(net(state, tokens, images), net(state, other, images))
        assert torch.equal(wordless(state, tokens, images), wordless(state, other, images))
    with pytest.raises(ValueError, match=r"acts_without: \['place'\] is not allowed with offsets: 0"):
        replace(settings, offsets=0)


def test_who_acts_by_offsets_acts_by_nothing_else_that_is_seen_and_labels_alone_teach_them() -> None:
    torch.manual_seed(0)
    alone = {"looks": 2, "layers": 0, "decoder_layers": 0, "offsets": 3}
    net = Network(3, (1, 31, 40, 3), 12, 4, replace(SETTINGS, **alone)).eval()
    state, tokens, images = given(1)
    planned, place = net.both(state, tokens, images)
    assert net.offsets is not None
    where = [*net.offsets.parameters(), *net.placer.parameters()]
    acts = torch.autograd.grad(planned.square().sum(), [*net.planner.parameters(), *where], allow_unused=True)
    assert all(one is not None for one in acts[: -len(where)]) and all(one is None for one in acts[-len(where) :])
    labels = torch.autograd.grad(net.offsets(torch.relu(place.feature)).sum(), where)
    assert all(one.any() for one in labels)
    with torch.no_grad():
        other = 255.0 - images
        assert not torch.equal(net(state, tokens, other), planned)
        net.offsets.weight.zero_()
        assert torch.equal(net(state, tokens, other), net(state, tokens, images))
        before = net(state, tokens, images)
        net.offsets.bias.add_(1.0)
        assert not torch.equal(net(state, tokens, images), before)
