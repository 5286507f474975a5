"""Networks for text and other sequences: encoders, decoders with a cache, experts, recurrent layers."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  as everybody calls it
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tests.ordinary.bench import Ordinary, ordinary

TOKENS = {0: "batch", 1: "length"}
CACHE = {0: "batch", 2: "past"}


class Encoder(nn.Module):
    def __init__(self, *, additive: bool):
        super().__init__()
        self.additive, self.words, self.positions = additive, nn.Embedding(50, 32), nn.Embedding(64, 32)
        self.query, self.key, self.value, self.out = (nn.Linear(32, 32) for _ in range(4))
        self.norm, self.second_norm = nn.LayerNorm(32), nn.LayerNorm(32)
        self.feed_forward = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (4, 8)).transpose(1, 2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        length = input_ids.shape[1]
        x = self.words(input_ids) + self.positions(torch.arange(length, device=input_ids.device))
        mask = attention_mask[:, None, None, :].bool()
        if self.additive:
            mask = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        q, k, v = (self.heads(part(x)) for part in (self.query, self.key, self.value))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)
        x = self.norm(x + self.out(y))
        return self.second_norm(x + self.feed_forward(x))


def padded(batch: int, length: int) -> tuple[Tensor, Tensor]:
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[0, length // 2 + 1 :] = 0
    return torch.randint(0, 50, (batch, length)), mask


def features(count: int) -> Callable[[int, int], tuple[Tensor]]:
    return lambda batch, length: (torch.randn(batch, length, count),)


def encoder(additive: bool) -> Ordinary:
    shapes = {"input_ids": TOKENS, "attention_mask": TOKENS}
    others = [padded(1, 9), padded(3, 4)]
    return Ordinary(Encoder(additive=additive).eval(), padded(2, 6), others, shapes=shapes, draw=padded)


@ordinary
def encoder_boolean_mask() -> Ordinary:
    return encoder(additive=False)


@ordinary
def encoder_additive_mask() -> Ordinary:
    return encoder(additive=True)


@ordinary
def encoder_by_keywords() -> Ordinary:
    def named(batch: int, length: int) -> dict[str, Tensor]:
        return dict(zip(("input_ids", "attention_mask"), padded(batch, length), strict=True))

    shapes = {"input_ids": TOKENS, "attention_mask": TOKENS}
    model = Encoder(additive=True).eval()
    return Ordinary(model, (), [((), named(1, 9)), ((), named(3, 4))], kwargs=named(2, 6), shapes=shapes)


@ordinary
def transformer_layer() -> Ordinary:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    draw = features(32)
    return Ordinary(layer, draw(2, 5), [draw(3, 8)], shapes={"src": TOKENS}, draw=draw)


class Decoder(nn.Module):
    """Grouped-query attention with rotary positions; the cache is a list or a dictionary."""

    def __init__(self, *, keeps_table: bool = False):
        super().__init__()
        self.keeps_table, self.table = keeps_table, None
        self.words, self.head = nn.Embedding(40, 32), nn.Linear(32, 40)
        self.query, self.key, self.value = nn.Linear(32, 32), nn.Linear(32, 16), nn.Linear(32, 16)

    def angles(self, start: int, end: int) -> Tensor:
        if self.keeps_table:
            if self.table is None or len(self.table) < end:
                self.table = self.computed(0, end)
            return self.table[start:end]
        return self.computed(start, end)

    def computed(self, start: int, end: int) -> Tensor:
        return torch.outer(torch.arange(start, end).float(), 10000 ** (-torch.arange(0, 8, 2).float() / 8))

    def rotated(self, x: Tensor, angles: Tensor) -> Tensor:
        low, high = x.chunk(2, -1)
        turned = torch.cat([-high, low], -1)
        return x * angles.cos().repeat(1, 2) + turned * angles.sin().repeat(1, 2)

    def forward(self, ids: Tensor, past: Any) -> Any:
        key, value = (past["key"], past["value"]) if isinstance(past, dict) else past
        start, end = key.shape[2], key.shape[2] + ids.shape[1]
        x, angles = self.words(ids), self.angles(start, end)
        q, k, v = (
            part(x).unflatten(-1, (-1, 8)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        q, k = self.rotated(q, angles), torch.cat([key, self.rotated(k, angles)], 2)
        v = torch.cat([value, v], 2)
        mask = torch.arange(end)[None] <= torch.arange(start, end)[:, None]
        shared = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        y = F.scaled_dot_product_attention(q, *shared, attn_mask=mask).transpose(1, 2).flatten(2)
        logits = self.head(x + y)
        return (
            {"logits": logits, "past": {"key": k, "value": v}} if isinstance(past, dict) else (logits, [k, v])
        )


def step(batch: int, new: int, past: int, *, named: bool = False) -> tuple[Any, ...]:
    cache = [torch.randn(batch, 2, past, 8), torch.randn(batch, 2, past, 8)]
    return torch.randint(0, 40, (batch, new)), dict(
        zip(("key", "value"), cache, strict=True)
    ) if named else cache


@ordinary
def decoder_cache_list() -> Ordinary:
    shapes = {"ids": {0: "batch", 1: "new"}, "past": [CACHE, CACHE]}
    return Ordinary(Decoder().eval(), step(2, 3, 5), [step(3, 1, 8), step(2, 4, 2)], shapes=shapes)


@ordinary
def decoder_cache_dictionary() -> Ordinary:
    shapes = {"ids": {0: "batch", 1: "new"}, "past": {"key": CACHE, "value": CACHE}}
    others = [step(3, 2, 8, named=True)]
    return Ordinary(Decoder().eval(), step(2, 3, 5, named=True), others, shapes=shapes)


@ordinary
def rotary_table_on_self() -> Ordinary:
    model = Decoder(keeps_table=True).eval()
    with torch.no_grad():
        model(*step(1, 3, 5))  # it has been used before the export
    shapes = {"ids": {0: "batch", 1: "new"}, "past": [CACHE, CACHE]}
    return Ordinary(model, step(2, 3, 5), [step(3, 2, 12)], shapes=shapes)


class PaddedDecoder(nn.Module):
    """Causal attention, learned positions; the batch is padded on the left."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.head = nn.Embedding(40, 32), nn.Embedding(64, 32), nn.Linear(32, 40)
        self.query, self.key = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, ids: Tensor, mask: Tensor, positions: Tensor) -> Tensor:
        at = torch.arange(ids.shape[1], device=ids.device)
        visible = (at <= at[:, None]) & (mask[:, None, :] > 0) | (at == at[:, None])  # never an empty row
        x = self.words(ids) + self.places(positions)
        heads = (part[:, None] for part in (self.query(x), self.key(x), x))
        return self.head(x + F.scaled_dot_product_attention(*heads, attn_mask=visible[:, None])[:, 0])


@ordinary
def left_padded_decoder() -> Ordinary:
    def draw(batch: int, length: int) -> tuple[Tensor, ...]:
        ids, mask = torch.randint(0, 40, (batch, length)), torch.ones(batch, length, dtype=torch.long)
        mask[0, : length // 2] = 0
        return ids, mask, (mask.cumsum(-1) - 1).clamp(min=0)

    shapes = dict.fromkeys(("ids", "mask", "positions"), TOKENS)
    return Ordinary(PaddedDecoder().eval(), draw(2, 6), [draw(3, 4)], shapes=shapes, draw=draw)


class Experts(nn.Module):
    """A mixture of experts: each token takes two of four, whose weights are one tensor of three axes."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.weights = nn.Linear(32, 4), nn.Parameter(torch.randn(4, 32, 32) / 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        shares, chosen = self.gate(x).softmax(-1).topk(2, -1)
        every = torch.einsum("bnd,edf->bnef", x, self.weights)
        taken = every.gather(2, chosen[..., None].expand(-1, -1, -1, 32))
        return (taken * shares[..., None]).sum(2), chosen


@ordinary
def mixture_of_experts() -> Ordinary:
    draw = features(32)
    return Ordinary(Experts().eval(), draw(2, 3), [draw(3, 7)], shapes={"x": TOKENS}, draw=draw)


class Bag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bag, self.out = nn.EmbeddingBag(100, 32, mode="mean"), nn.Linear(32, 4)

    def forward(self, ids: Tensor, offsets: Tensor) -> Tensor:
        return self.out(self.bag(ids, offsets))


@ordinary
def embedding_bag() -> Ordinary:
    ids = torch.tensor([1, 2, 4, 5, 4]), torch.tensor([3, 3, 1, 9, 99])
    return Ordinary(Bag().eval(), (ids[0], torch.tensor([0, 2])), [(ids[1], torch.tensor([0, 4]))])


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True), nn.Linear(32, 3)

    def forward(self, x: Tensor) -> Any:
        y, state = self.lstm(x)
        return self.out(y), state


@ordinary
def lstm_tagger() -> Ordinary:
    draw = features(8)
    return Ordinary(Tagger().eval(), draw(2, 5), [draw(1, 9), draw(3, 1)], shapes={"x": TOKENS}, draw=draw)


class Recurrent(nn.Module):
    def __init__(self, *, packs: bool):
        super().__init__()
        self.packs, self.gru = packs, nn.GRU(8, 16, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor) -> list[Tensor]:
        if not self.packs:
            y, _ = self.gru(x)
            at = (lengths - 1)[:, None, None].expand(-1, 1, y.shape[2])
            return [y, y.gather(1, at).squeeze(1)]
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        y, last = self.gru(packed)
        return [pad_packed_sequence(y, batch_first=True)[0], last]


def recurrent(packs: bool) -> Ordinary:
    def draw(batch: int, length: int) -> tuple[Tensor, Tensor]:
        lengths = torch.randint(1, length + 1, (batch,))
        lengths[-1] = length
        return torch.randn(batch, length, 8), lengths

    shapes = {"x": TOKENS, "lengths": {0: "batch"}}
    model = Recurrent(packs=packs).eval()
    return Ordinary(model, draw(2, 5), [draw(2, 7), draw(3, 5)], shapes=shapes, draw=draw)


@ordinary
def gru_list_of_outputs() -> Ordinary:
    return recurrent(packs=False)


@ordinary
def gru_packed() -> Ordinary:
    return recurrent(packs=True)


class Signal(nn.Module):
    """Frames of a signal, a window, convolutions over time."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(16))
        self.layers = nn.Sequential(
            nn.Conv1d(16, 32, 3, padding=1), nn.GELU(), nn.Conv1d(32, 8, 3, stride=2, padding=1)
        )

    def forward(self, signal: Tensor) -> Tensor:
        frames = signal.unfold(1, 16, 8) * self.window
        return self.layers(frames.transpose(1, 2)).log_softmax(1)


@ordinary
def framed_signal() -> Ordinary:
    others = [(torch.randn(1, 160),), (torch.randn(3, 99),)]
    shapes = {"signal": {0: "batch", 1: "samples"}}
    return Ordinary(Signal().eval(), (torch.randn(2, 80),), others, shapes=shapes)
