"""The commands `onnxlab class ...`: arguments and printing, nothing else."""

import argparse

__all__ = ["add_class"]


def add_class(rooms: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the group of commands for a class."""
    group = rooms.add_parser("class", help="a class: hand out the labs, serve the course, watch, collect")
    group.add_subparsers(title="commands", required=True, metavar="COMMAND")
