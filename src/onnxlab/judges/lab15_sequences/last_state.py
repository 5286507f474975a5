"""What is right in last-state."""

import torch
from torch import nn

from onnxlab.judges.lab15_sequences.requested import Verdict
from onnxlab.labs.lab15_sequences.last_state import REQUEST, Packed


class _Turned(nn.Module):
    """The states as both exporters can write them: the second direction reads turned sequences."""

    def __init__(self, right: Packed) -> None:
        super().__init__()
        self.both, given = right.lstm, right.lstm
        self.back = nn.LSTM(given.input_size, given.hidden_size, bias=given.bias, batch_first=True)
        weights = {name: value for name, value in given.state_dict().items() if name.endswith("_reverse")}
        self.back.load_state_dict({name.removesuffix("_reverse"): weights[name] for name in weights})

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        time, rows = torch.arange(x.shape[1]), torch.arange(x.shape[0])
        order = torch.where(time < lengths[:, None], lengths[:, None] - 1 - time, time)
        turned = x.gather(1, order[..., None].expand(-1, -1, x.shape[2]))
        there, back = self.both(x)[0][..., : self.back.hidden_size], self.back(turned)[0]
        return torch.cat([there[rows, lengths - 1], back[rows, lengths - 1]], 1)


JUDGES = Verdict(
    REQUEST,
    file_of=_Turned,
    look_at={
        "": "What has each direction read when its state is taken? Was there padding among it?",
        "unpadded": "Here is no padding. Which weights has each direction, and whose state comes first?",
    },
).judges
