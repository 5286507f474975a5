"""Sizes and branches that depend on values."""

import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

from tests.ordinary.bench import Ordinary, ordinary


class Above(nn.Module):
    def forward(self, boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        keep = scores > 0.5
        return boxes[keep], scores[keep], torch.nonzero(keep).squeeze(1)


@ordinary
def rows_above_a_score() -> Ordinary:
    args = torch.rand(6, 4), torch.tensor([0.9, 0.2, 0.7, 0.1, 0.6, 0.4])
    others = [(torch.rand(6, 4), torch.zeros(6)), (torch.rand(3, 4), torch.ones(3))]
    return Ordinary(Above().eval(), args, others, shapes={"boxes": {0: "count"}, "scores": {0: "count"}})


class Slice(nn.Module):
    def forward(self, x: Tensor, length: Tensor) -> Tensor:
        end = length.item()
        torch._check(end >= 0)
        torch._check(end <= x.shape[0])
        return x[:end] * 2


@ordinary
def slice_by_item() -> Ordinary:
    others = [(torch.rand(8, 3), torch.tensor(1)), (torch.rand(8, 3), torch.tensor(8))]
    return Ordinary(Slice().eval(), (torch.rand(8, 3), torch.tensor(5)), others)


class Branch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 5, (x,))


@ordinary
def torch_cond() -> Ordinary:
    return Ordinary(Branch().eval(), (torch.rand(2, 3),), [(-torch.rand(2, 3),)])


class PythonBranch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.sum() > 0 else x - 5


@ordinary
def python_branch_on_data() -> Ordinary:
    return Ordinary(PythonBranch().eval(), (torch.rand(2, 3),), [(-torch.rand(2, 3),)])


class Halving(nn.Module):
    """Halves until the largest value is below 1, and counts."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        def goes_on(count: Tensor, x: Tensor) -> Tensor:
            return x.max() > 1

        def body(count: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            return count + 1, x / 2

        return while_loop(goes_on, body, (torch.tensor(0), x))


@ordinary
def torch_while_loop() -> Ordinary:
    return Ordinary(
        Halving().eval(), (torch.rand(2, 3) * 9,), [(torch.rand(2, 3),), (torch.rand(2, 3) * 99,)]
    )


class Recurrence(nn.Module):
    """A state that decays, step by step, as in a state-space model."""

    def __init__(self) -> None:
        super().__init__()
        self.decay = nn.Parameter(torch.rand(3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        def body(state: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
            state = self.decay * state + value
            return state, state.clone()

        return scan(body, torch.zeros_like(x[0]), x)


@ordinary
def torch_scan() -> Ordinary:
    return Ordinary(Recurrence().eval(), (torch.rand(5, 2, 3),), [(torch.rand(5, 2, 3),)])
