"""What a base sees in its scan: the nearest obstacle in each sector, and what moves there by itself.

A sector takes the shortest of its rays, so that no thin leg between two observed rays is lost. The change compares it
with what the scan showed a few periods ago, turned and shortened by the base's own motion since: static obstacles
nearly cancel, and what moves stands out.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from rlstack.robots import Lidar
from rlstack.tasks.core.pipeline import Pipeline, Tensors, Term

_TURN_RAD = 6.2831855
_LEAST_M = 0.05
"""Least range after the motion since the past scan is taken off."""
_THIN_M = 0.02
"""Width of the thinnest obstacle that is still believed at the lidar's least range."""
_MOST_RUN = 5


class ScanMotion(Term):
    """Closeness of obstacles by sector, and its change beside that by the base's own motion.

    Rays that read the least range alone, without as many neighbours as the thinnest obstacle there would cover, are
    dropouts and count as not measured.

    Args:
        lidar: The lidar as in the robot file.
        sectors: Number of sectors, evenly spaced over the rays.
        half_m: Range at which closeness is one half.
        periods: Age of the past scan in control periods.
        scale: Factor on the change.
    """

    name, unit = "closeness", "1"
    meaning = "h / (h + range) of each sector's nearest ray, then its change that own motion does not explain"

    def __init__(self, lidar: Lidar, sectors: int, half_m: float, periods: int, scale: float = 1.0) -> None:
        super().__init__()
        rays, step = lidar.rays, lidar.angle_increment_rad
        self.sectors, self.half_m, self.periods, self.size = min(sectors, rays), half_m, periods, 2 * min(sectors, rays)
        self.scale = scale
        self.far_m, self.near_m = lidar.range_max_m, lidar.range_min_m
        self.turns = step * rays > _TURN_RAD - 1e-3
        centres = [k * rays // self.sectors for k in range(self.sectors)]
        wide = -(-rays // self.sectors)
        self.wide = wide
        offsets = [k - wide // 2 for k in range(wide)]
        index = [[self._ray(c + o, rays) for o in offsets] for c in centres]
        angles = torch.from_numpy(lidar.angles_rad + lidar.rpy_rad[2]).float()
        self.register_buffer("index", torch.tensor(index).flatten())
        directions = torch.stack([angles[centres].cos(), angles[centres].sin()])
        self.register_buffer("directions", directions)
        self.register_buffer("angles", angles[centres])
        self.step_rad = step * rays / self.sectors
        covered = int(_THIN_M / max(self.near_m, _LEAST_M) / step) if step else 1
        self.run = max(1, min(_MOST_RUN, covered | 1))
        """Rays that an obstacle at the least range covers at least; 1: dropouts cannot be told apart."""
        self.memory: Mapping[str, tuple[int, ...]] = {
            "past_closeness": (periods * self.sectors,),
            "past_pose": (periods * 4,),
        }

    index: Tensor
    directions: Tensor
    angles: Tensor

    def measured(self) -> Term:
        """Return the term that reads these columns from the input ``scan``, for training, which computes them."""
        return _Measured(self.name, self.size, self.unit, self.meaning)

    def prepare(self, inputs: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """Return ``closeness`` (batch, sectors) and ``scan_pose`` (batch, 4): x, y, cosine and sine of the heading."""
        closeness = self.closeness(self.nearest(inputs["scan"]))
        forward = inputs["rotation"][:, :2, 0]
        return {"closeness": closeness, "scan_pose": torch.cat([inputs["position"][:, :2], forward], dim=-1)}

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 2 sectors)."""
        past = memory["past_closeness"][:, -self.sectors :]
        change = self.change(inputs["closeness"], inputs["scan_pose"], past, memory["past_pose"][:, -4:])
        return torch.cat([inputs["closeness"], change], dim=-1)

    def remember(self, inputs: Tensors, memory: Tensors, action: Tensor) -> dict[str, Tensor]:
        """Push the present scan and pose to the front."""
        kept = {"past_closeness": ("closeness", self.sectors), "past_pose": ("scan_pose", 4)}
        return {
            name: torch.cat([inputs[given], memory[name][:, : (self.periods - 1) * width]], dim=-1)
            for name, (given, width) in kept.items()
        }

    def nearest(self, scan: Tensor) -> Tensor:
        """Return the shortest range (batch, sectors) of each sector, m, without dropouts."""
        if self.run > 1:
            near = (scan < self.near_m + 1e-3).to(scan.dtype)
            shifts = range(-(self.run // 2), self.run // 2 + 1)
            solid = torch.stack([self._shifted(near, k) for k in shifts]).amin(dim=0)
            solid = torch.stack([self._shifted(solid, k) for k in shifts]).amax(dim=0)
            scan = torch.where((near > 0.5) & (solid < 0.5), self.far_m, scan)
        return scan[:, self.index].reshape(-1, self.sectors, self.wide).amin(dim=-1)

    def closeness(self, ranges: Tensor) -> Tensor:
        """Return the closeness of ranges, m."""
        return self.half_m / (self.half_m + ranges)

    def change(self, closeness: Tensor, pose: Tensor, past: Tensor, past_pose: Tensor) -> Tensor:
        """Return ``scale`` times by how much each sector came closer since the past scan beside own motion.

        Args:
            closeness: (batch, sectors) now.
            pose: (batch, 4) now.
            past: (batch, sectors) then.
            past_pose: (batch, 4) then; zero if there was no scan yet, and then the change is 0.
        """
        x, y, cos, sin = pose.unbind(dim=-1)
        past_x, past_y, past_cos, past_sin = past_pose.unbind(dim=-1)
        known = past_cos * past_cos + past_sin * past_sin > 0.5
        turned = torch.atan((sin * past_cos - cos * past_sin) / (cos * past_cos + sin * past_sin).clamp(min=0.1))
        at = torch.arange(self.sectors, device=pose.device) + (turned / self.step_rad).unsqueeze(-1)
        if self.turns:
            at = at - self.sectors * torch.floor(at / self.sectors)
        inside = (at >= 0.0) & (at <= self.sectors - 1.0) if not self.turns else at >= -1.0
        first = torch.floor(at).clamp(0, self.sectors - 1)
        share = at - first
        one = first.long()
        other = one + 1
        other = torch.where(other < self.sectors, other, torch.zeros_like(other) if self.turns else one)
        then = past.gather(1, one) * (1.0 - share) + past.gather(1, other) * share
        east, north = x - past_x, y - past_y
        ahead, left = (east * cos + north * sin).unsqueeze(-1), (north * cos - east * sin).unsqueeze(-1)
        ranges = self.half_m / then.clamp(min=1e-3) - self.half_m
        ranges = (ranges - ahead * self.directions[0] - left * self.directions[1]).clamp(min=_LEAST_M)
        change = self.scale * (closeness - self.closeness(ranges))
        return torch.where(known.unsqueeze(-1) & inside, change, torch.zeros_like(change))

    def _ray(self, ray: int, rays: int) -> int:
        return ray % rays if self.turns else min(max(ray, 0), rays - 1)

    def _shifted(self, values: Tensor, by: int) -> Tensor:
        """Return values (batch, rays) moved by some rays; around for a lidar that turns, else repeating its ends."""
        rays = values.shape[1]
        if by == 0:
            return values
        end = values[:, -by:] if by > 0 else values[:, :-by]
        if not self.turns:
            end = values[:, :1].expand(-1, by) if by > 0 else values[:, rays - 1 :].expand(-1, -by)
        return torch.cat([end, values[:, :-by]] if by > 0 else [values[:, -by:], end], dim=1)


class _Measured(Term):
    """Columns that the environment computes."""

    def __init__(self, name: str, size: int, unit: str, meaning: str) -> None:
        super().__init__()
        self.name, self.size, self.unit, self.meaning = name, size, unit, meaning

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, size)."""
        return inputs["scan"]


def measured_pipeline(pipeline: Pipeline) -> Pipeline:
    """Return a copy of a pipeline whose :class:`ScanMotion` reads its columns from the input ``scan``."""
    if not any(isinstance(term, ScanMotion) for term in pipeline.terms):
        return pipeline
    twin = copy.deepcopy(pipeline)
    twin.terms = nn.ModuleList(t.measured() if isinstance(t, ScanMotion) else t for t in twin.terms)
    return twin


def cast_rays(term: ScanMotion) -> tuple[int, ...]:
    """Return the rays that training casts, sector by sector: the middle one and those at its ends.

    The few between them hardly change a sector's shortest range, and would take most of the time.
    """
    index = term.index.reshape(term.sectors, term.wide)
    chosen = sorted({0, term.wide // 2, term.wide - 1})
    return tuple(index[:, chosen].flatten().tolist())


class ScanHistory:
    """Scans of N robots in training as late as their policies receive them, and the columns of :class:`ScanMotion`.

    Args:
        term: The term.
        late: Greatest delay in control periods.
        count: N.
        device: Device of the arrays.
    """

    def __init__(self, term: ScanMotion, late: int, count: int, device: Any) -> None:
        self.term, self.count = term.to(device), count
        self._rows = torch.arange(count, device=device)
        self._scans = torch.zeros(late + 2, count, term.sectors, device=device)
        self._seen = torch.zeros(term.periods + 1, count, term.sectors, device=device)
        self._poses = torch.zeros(term.periods + 1, count, 4, device=device)
        self._known = torch.zeros(count, dtype=torch.long, device=device)
        """Scans since each robot's reset."""
        self.late = torch.zeros(count, dtype=torch.long, device=device)
        """Delay of each robot's scans, periods."""
        self.halved = torch.zeros(count, dtype=torch.bool, device=device)
        """Whether only every other scan arrives."""
        self.view_rad = torch.full((count,), 7.0, device=device)
        """Field of view about straight ahead: sectors beyond half of it read the greatest range."""
        self._turn = 0
        self._again = False

    def restart(self, index: Tensor) -> None:
        """Forget the scans of the robots at ``index``."""
        self._known[index] = 0
        self._poses[:, index] = 0.0

    def repeat(self) -> None:
        """Measure the present again at the next call: a rollout begins where the last one ended."""
        self._again = True

    def __call__(self, nearest: Tensor, pose: Tensor, out: Tensor) -> None:
        """Take a scan and write the columns.

        Args:
            nearest: (sectors, N) range of each sector, m.
            pose: (4, N) x, y, cosine and sine of the heading.
            out: (2 sectors, N), written.
        """
        term, again, known = self.term, self._again, self._known
        self._again = False
        if not again:
            self._turn += 1
        known += ((known == 0) | (not again)).long()
        scans, turn = len(self._scans), self._turn
        view = (0.5 * self.view_rad).unsqueeze(1)
        angles = torch.remainder(term.angles + 0.5 * _TURN_RAD, _TURN_RAD) - 0.5 * _TURN_RAD
        self._scans[turn % scans] = torch.where(angles.abs() <= view, nearest.T, term.far_m)
        late = torch.minimum(self.late + (self.halved & ((turn + self._rows) % 2 == 1)), known - 1)
        seen = term.closeness(self._scans[(turn - late) % scans, self._rows])
        kept = len(self._seen)
        now, then = turn % kept, (turn + 1) % kept
        self._seen[now], self._poses[now] = seen, pose.T
        change = term.change(seen, self._poses[now], self._seen[then], self._poses[then])
        out[: term.sectors].copy_(seen.T)
        out[term.sectors :].copy_(change.T)

    def state_dict(self) -> dict[str, Any]:
        """Return the mutable state."""
        names = ("_scans", "_seen", "_poses", "_known", "late", "halved", "view_rad")
        return {**{name: getattr(self, name) for name in names}, "turn": self._turn}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        for name, array in state.items():
            if name != "turn":
                getattr(self, name).copy_(array)
        self._turn = state["turn"]
