"""Loading of the trained weights that come with the course."""

from importlib.resources import as_file
from importlib.resources.abc import Traversable
from typing import TypeVar

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from onnxlab.errors import ModelNotReadable

Network = TypeVar("Network", bound=nn.Module)


def with_weights(network: Network, weights: Traversable) -> Network:
    """Load the weights of a safetensors file into a network, and put it into inference mode.

    Raises:
        ModelNotReadable: If the file is missing or damaged, or belongs to another network.
    """
    try:
        with as_file(weights) as path:
            network.load_state_dict(load_file(path))
    except (OSError, RuntimeError, SafetensorError) as error:
        what = "The trained weights {name} cannot be loaded."
        then = "Install ONNX Lab again; the weights come with it."
        reason = str(error).splitlines()[0]
        raise ModelNotReadable(what, reason, then, name=weights.name) from error
    return network.eval()
