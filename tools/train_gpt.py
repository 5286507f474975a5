"""Train the small decoder of chapter 17 to recite four poems.

Run `python -m tools.train_gpt`. Nothing is downloaded: the poems come with the course. docs/weights.md keeps
the figures of the shipped weights.
"""

import argparse
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from onnxlab.gpt import GPT, cache, load_trained, poems

__all__ = ["main", "mistakes", "train"]

STEPS = 500
WINDOWS, WINDOW = 2, 1024
"""Pieces of text in a step, and tokens in a piece: longer than the longest poem."""
LEARNING_RATE = 4e-3


def tokens_of(text: str) -> Tensor:
    """Give a text's bytes, whole numbers (length,)."""
    return torch.tensor(list(text.encode()))


def train(steps: int = STEPS, of: int = STEPS, seed: int = 0) -> GPT:
    """Train a new network; the same seed, machine and number of threads give the same weights.

    Args:
        steps: How many steps to make.
        of: How many steps the schedule of the learning rate has.
        seed: For the first weights and the choice of the windows.
    """
    torch.manual_seed(seed)
    network = GPT().train()
    optimizer = torch.optim.AdamW(network.parameters(), LEARNING_RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, of)
    text = tokens_of(poems())
    ring = torch.cat([text, text])  # after the last poem the first begins again
    for step in range(steps):
        starts = torch.randint(len(text), (WINDOWS,)).tolist()
        pieces = torch.stack([ring[start : start + WINDOW + 1] for start in starts])
        scores, _ = network(pieces[:, :-1], cache(WINDOWS))
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), pieces[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's own
        optimizer.step()
        schedule.step()
        if step % 50 == 49:
            print(f"step {step + 1}: loss {loss.item():.3f}", flush=True)
    return network.eval()


def mistakes(network: GPT) -> dict[str, int]:
    """Count the bytes of each poem, below its title, that the network gets wrong after right ones."""
    counts = {}
    for poem in poems().split("\n\n\n"):
        title, newline, _ = poem.partition("\n")
        if not newline:
            continue  # after the last poem
        text = tokens_of(poem + "\n\n\n")
        with torch.inference_mode():
            scores, _ = network(text[None], cache())
        begin = len(title)  # the title's newline is given, too
        wrong = scores[0, begin:-1].argmax(-1) != text[begin + 1 :]
        counts[title] = int(wrong.sum())
    return counts


def main(arguments: list[str] | None = None) -> None:
    """Write the weights, or say what the shipped ones recite."""
    parser = argparse.ArgumentParser(prog="python -m tools.train_gpt", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("gpt.safetensors"), help="the file to write")
    parser.add_argument("--evaluate", action="store_true", help="measure the shipped weights")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)  # so small a network gains nothing from more
    network = load_trained() if options.evaluate else train()
    if not options.evaluate:
        save_file(network.state_dict(), options.output)
    for title, wrong in mistakes(network).items():
        print(f"{title}: {wrong} wrong bytes")


if __name__ == "__main__":
    main()
