"""What the scripts that train a network share: their options, and the file that the weights go to."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import torch
from safetensors.torch import save_file

_Network = TypeVar("_Network", bound=torch.nn.Module)


def trained_network(
    description: str,
    file: str,
    train: Callable[[], _Network],
    load_trained: Callable[[], _Network],
    arguments: Sequence[str] | None,
    *,
    threads: int = 1,
) -> _Network:
    """Train a network and write its weights, or with `--evaluate` load the weights that ship.

    Args:
        description: What `--help` says.
        file: Where the weights are written if `--output` does not say.
        train: Trains it.
        load_trained: Loads what ships.
        arguments: What was typed; None for the command line.
        threads: On so many; a small network gains nothing from more than one.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--output", type=Path, default=Path(file), metavar="FILE", help="the file to write")
    parser.add_argument("--evaluate", action="store_true", help="measure the shipped weights")
    options = parser.parse_args(arguments)
    if not options.output.resolve().parent.is_dir():  # said now, not after training
        parser.error(f"there is no folder {options.output.parent} to write to")
    torch.set_num_threads(threads)
    if options.evaluate:
        return load_trained()
    network = train()
    save_file(network.state_dict(), options.output)
    return network
