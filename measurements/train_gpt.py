"""Train the small decoder of chapter 17 to recite four poems.

Run `python -m measurements.train_gpt`. Nothing is downloaded: the poems come with the course. docs/weights.md keeps
the figures of the shipped weights.
"""

import torch
from torch import Tensor, nn

from measurements.training import trained_network
from onnxlab.networks.gpt import GPT, cache, load_trained, poems

STEPS = 500
LEARNING_RATE = 4e-3
NO_TARGET = -100  # what cross_entropy leaves out


def beginnings() -> list[list[str]]:
    """Give the texts to learn, those of about one length together: the long poem, and the others.

    The short poems are learned twice, with and without their title, so that they can be begun in both ways.
    """
    titled = [poem + "\n\n\n" for poem in poems().split("\n\n\n")[:-1]]
    bare = [poem.split("\n\n", 1)[1] for poem in titled[1:]]
    return [titled[:1], titled[1:] + bare]


def batch(texts: list[str]) -> tuple[Tensor, Tensor]:
    """Give the tokens of texts and what follows each of them, both (texts, length)."""
    pieces = [torch.tensor(list(text.encode())) for text in texts]
    tokens = nn.utils.rnn.pad_sequence([piece[:-1] for piece in pieces], batch_first=True)
    following = [piece[1:] for piece in pieces]
    return tokens, nn.utils.rnn.pad_sequence(following, batch_first=True, padding_value=NO_TARGET)


def train(steps: int = STEPS, of: int = STEPS, seed: int = 0) -> GPT:
    """Train a new network; the same seed, machine and number of threads give the same weights.

    Args:
        steps: How many steps to make.
        of: How many steps the schedule of the learning rate has.
        seed: For the first weights.
    """
    torch.manual_seed(seed)
    network = GPT().train()
    optimizer = torch.optim.AdamW(network.parameters(), LEARNING_RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, of)
    batches = [batch(texts) for texts in beginnings()]
    for step in range(steps):
        optimizer.zero_grad()
        for tokens, following in batches:
            scores, _ = network(tokens, cache(len(tokens)))
            loss = nn.functional.cross_entropy(
                scores.flatten(0, 1), following.flatten(), ignore_index=NO_TARGET
            )
            loss.backward()  # type: ignore[no-untyped-call]  # torch's own
        optimizer.step()
        schedule.step()
        if step % 50 == 49:
            print(f"step {step + 1}: loss {loss.item():.3f}", flush=True)
    return network.eval()


def mistakes(network: GPT) -> dict[str, int]:
    """Count the bytes of each poem, below its title, that the network gets wrong after right ones."""
    counts = {}
    for poem in poems().split("\n\n\n")[:-1]:
        title = poem.partition("\n")[0]
        tokens, following = batch([poem + "\n\n\n"])
        with torch.inference_mode():
            scores, _ = network(tokens, cache())
        below = slice(len(title), None)  # from the line break after the title on
        counts[title] = int((scores[0, below].argmax(-1) != following[0, below]).sum())
    return counts


def main(arguments: list[str] | None = None) -> None:
    """Write the weights, or take the shipped ones, and say what they recite."""
    network = trained_network(__doc__, "gpt.safetensors", train, load_trained, arguments)
    for title, wrong in mistakes(network).items():
        print(f"{title}: {wrong} wrong bytes")


if __name__ == "__main__":
    main()
