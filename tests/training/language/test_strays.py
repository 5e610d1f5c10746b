"""Noise on what experts do in demonstrations: in some chunks, of which the first action alone teaches."""

from __future__ import annotations

import torch

from rlstack.training.language.strays import Disturbance, Strays

STILL, FREE = torch.zeros(200, 3), torch.tensor([[1.0, 1.0, 0.0]])


def test_noise_comes_in_whole_chunks_of_which_the_first_action_teaches() -> None:
    strays = Strays(200, 3, Disturbance(0.3), torch.Generator().manual_seed(0))
    for _ in range(30):
        strays.begin()
        noise = torch.stack([strays.disturbed(STILL, FREE) for _ in range(4)], dim=1)
        noisy = (noise[..., :2] != 0.0).all(dim=-1).all(dim=-1)
        assert torch.equal(noisy, (noise != 0.0).any(dim=-1).any(dim=-1)) and 0.3 < noisy.float().mean() < 0.7
        taught = strays.taught(4)
        assert (taught[:, 0] == 1.0).all() and torch.equal(taught[:, 1:], (~noisy).float()[:, None].expand(-1, 3))
    assert abs(noise[noisy][..., :2].std() - 0.3) < 0.05 and (noise[..., 2] == 0.0).all()


def test_without_noise_all_actions_teach() -> None:
    strays = Strays(200, 3, Disturbance(0.0), torch.Generator().manual_seed(0))
    strays.begin()
    assert not any(strays.disturbed(STILL, FREE).any() for _ in range(9)) and strays.taught(4).all()
