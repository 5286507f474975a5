"""What people pass to a module and get from it, and what a call leaves behind."""

from typing import Any

import torch
from torch import Tensor, nn

from tests.ordinary.bench import Ordinary, ordinary

ROWS = {"x": {0: "rows"}}


class VariableArguments(nn.Module):
    def forward(self, *parts: Tensor, **named: Tensor) -> Tensor:
        return sum(parts) * named["scale"] - named["shift"]


@ordinary
def variable_arguments() -> Ordinary:
    def named() -> dict[str, Tensor]:
        return {"shift": torch.rand(2, 3), "scale": torch.rand(2, 3)}

    def pair() -> tuple[Tensor, Tensor]:
        return torch.rand(2, 3), torch.rand(2, 3)

    return Ordinary(VariableArguments().eval(), pair(), [(pair(), named())], kwargs=named())


class Optional(nn.Module):
    def forward(
        self, x: Tensor, mask: Tensor | None = None, scale: float = 2, flipped: bool = False
    ) -> Tensor:
        x = x * scale if mask is None else x * mask * scale
        return x.flip(0) if flipped else x


@ordinary
def none_and_numbers() -> Ordinary:
    def draw(count: int) -> tuple[Any, ...]:
        return torch.rand(count, 4), None, 3, True

    return Ordinary(Optional().eval(), draw(3), [draw(3)])


@ordinary
def optional_left_out() -> Ordinary:
    return Ordinary(Optional().eval(), (torch.rand(3, 4),), [(torch.rand(5, 4),)], shapes=ROWS)


class Unused(nn.Module):
    def forward(self, unused: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return x + 1 - 2 * y


@ordinary
def unused_input() -> Ordinary:
    def draw() -> tuple[Tensor, ...]:
        return torch.rand(2, 3), torch.rand(2, 3), torch.rand(2, 3)

    return Ordinary(Unused().eval(), draw(), [draw()])


class Nested(nn.Module):
    def forward(self, pair: tuple[Tensor, Tensor], options: dict[str, list[Tensor]]) -> dict[str, Any]:
        total = pair[0] + options["more"][0]
        return {
            "total": total,
            "parts": [(pair[0] * 2, pair[1] - 1), [options["more"][1].exp()]],
            "nothing": None,
        }


@ordinary
def nested_arguments_and_outputs() -> Ordinary:
    def draw(count: int) -> tuple[Any, ...]:
        a, b, c, d = torch.rand(4, count, 3)
        return (a, b), {"more": [c, d]}

    rows = {0: "rows"}
    shapes = {"pair": (rows, rows), "options": {"more": [rows, rows]}}
    return Ordinary(Nested().eval(), draw(2), [draw(5)], shapes=shapes)


class Kinds(nn.Module):
    """A truth, a whole number and a scalar among the outputs."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return x > 0.5, x.argmax(-1), x.mean(), (x * 255).to(torch.uint8)


@ordinary
def boolean_and_whole_outputs() -> Ordinary:
    return Ordinary(Kinds().eval(), (torch.rand(2, 5),), [(torch.rand(4, 5),)], shapes=ROWS)


class Rest(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x[:, 5:], x.sum(1)


@ordinary
def empty_output() -> Ordinary:
    return Ordinary(Rest().eval(), (torch.rand(2, 5),), [(torch.rand(3, 5),)], shapes=ROWS)


class Logarithm(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.log(), 1 / x


@ordinary
def nan_and_infinity() -> Ordinary:
    others = [(torch.tensor([[5.0, -2, 0], [1, 2, 3]]),)]
    return Ordinary(Logarithm().eval(), (torch.tensor([[-1.0, 0, 2], [3, 1, -4]]),), others, shapes=ROWS)


class Crop(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x.clamp_(min=0.2)
        x[:, 0] = 1
        return x.mul_(2)


@ordinary
def in_place_forward() -> Ordinary:
    return Ordinary(Crop().eval(), (torch.rand(2, 3),), [(torch.rand(4, 3),)], shapes=ROWS)


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x + self.calls


@ordinary
def changing_buffer() -> Ordinary:
    return Ordinary(Counter().eval(), (torch.rand(2, 3),), [(torch.rand(2, 3),)])


@ordinary
def left_in_train_mode() -> Ordinary:
    layers = nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 2)
    return Ordinary(nn.Sequential(*layers), (torch.rand(6, 32),), [(torch.rand(6, 32),)])


class Columns(nn.Module):
    """Statistics of a table, of float64 as numpy makes it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers((x - x.mean(0)) / (x.std(0) + 1e-6))


@ordinary
def float64_table() -> Ordinary:
    model = Columns().double().eval()
    return Ordinary(model, (torch.rand(4, 6).double(),), [(torch.rand(9, 6).double(),)], shapes=ROWS)


@ordinary
def float16_perceptron() -> Ordinary:
    model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 2)).half().eval()
    return Ordinary(model, (torch.rand(3, 32).half(),), [(torch.rand(3, 32).half(),)])


@ordinary
def bfloat16_linear() -> Ordinary:
    return Ordinary(
        nn.Linear(4, 3).bfloat16().eval(), (torch.rand(2, 4).bfloat16(),), [(torch.rand(2, 4).bfloat16(),)]
    )


class Reshaped(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.reshape(-1), x.float() + 1


@ordinary
def bfloat16_reshaped() -> Ordinary:
    return Ordinary(Reshaped().eval(), (torch.rand(2, 4).bfloat16(),), [(torch.rand(2, 4).bfloat16(),)])
