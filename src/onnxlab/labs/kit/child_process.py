"""Producing in a process of its own, so that native code that dies does not take the notebook with it."""

import ctypes
import faulthandler
import multiprocessing
import os
import pickle
import signal
import sys
import time
import warnings
from multiprocessing.connection import Connection

import torch

from onnxlab.labs.kit.exercise import Answers, Exercise
from onnxlab.labs.kit.outcome import Status
from onnxlab.labs.kit.producing import PATIENCE, Production, load_exporter, produce
from onnxlab.labs.kit.work import Work

__all__ = ["produce_apart"]

_GRACE = 5.0  # seconds beyond the exercise's limit, which the child keeps by itself unless native code hangs
_PR_SET_PDEATHSIG = 1  # from linux/prctl.h


def produce_apart(exercise: Exercise, answers: Answers, work: Work) -> Production:
    """Do what `produce` does in a forked process, where the system forks safely: on Linux.

    The answers live in a notebook's memory and cannot be sent to a fresh process. On macOS, frameworks that
    torch uses do not survive a fork, and Windows has none: there, and where no process may be made,
    everything happens in this process, and a crash in native code ends it.

    Args:
        exercise: The exercise.
        answers: The learner's functions by name.
        work: The folder to write into.

    Returns:
        What happened; a crash is an error whose message names the signal.
    """
    if sys.platform != "linux":
        return produce(exercise, answers, work)
    load_exporter(exercise)  # here, and not again in every child
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    child = fork.Process(target=_child, args=(sender, receiver, exercise, answers, work))
    with receiver:
        try:
            with warnings.catch_warnings(action="ignore"):  # Python 3.12 warns of threads; see _child
                child.start()
        except OSError:  # a limit on processes, as in a sandbox
            return produce(exercise, answers, work)
        finally:
            sender.close()
        try:
            return _received(exercise, child, receiver)
        finally:
            if child.is_alive():
                child.kill()
            child.join()
            child.close()


def _received(
    exercise: Exercise, child: multiprocessing.process.BaseProcess, receiver: Connection
) -> Production:
    started = time.perf_counter()
    if not receiver.poll(PATIENCE * exercise.time_limit + _GRACE):
        message = f"Not ready after {exercise.time_limit:g} seconds, inside native code, and ended."
        return Production(Status.TIMED_OUT, message, seconds=time.perf_counter() - started)
    try:
        data = receiver.recv_bytes()
    except EOFError:  # it ended without a word
        child.join(_GRACE)
        return Production(Status.ERROR, _ending(child.exitcode), seconds=time.perf_counter() - started)
    production = pickle.loads(data)
    if isinstance(production, Production):
        return production
    raise KeyboardInterrupt  # the answer raised it, or somebody interrupted the child


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else "unknown"
        what = f"The export ended its process with signal {-code} ({name}): native code of torch crashed."
        why = "It was given a graph that it does not expect: often a node with an input too few or too many."
        return f"{what} {why} This notebook goes on."
    return f"Your code ended the process that it was checked in (exit code {code})."


def _child(
    sender: Connection, receiver: Connection, exercise: Exercise, answers: Answers, work: Work
) -> None:
    receiver.close()
    os.setsid()  # an interrupt of the notebook is for the notebook, which then ends this process
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # a killed notebook leaves nothing behind
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faulthandler.disable()  # its report of a crash would be printed below the notebook's cell
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - for its descriptor
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    # The threads of torch's pool are not in this copy of the process; whoever waits for one waits for ever.
    torch.set_num_threads(1)
    try:
        production: Production | None = produce(exercise, answers, work)
    except KeyboardInterrupt:
        production = None
    sender.send_bytes(pickle.dumps(production))
    os._exit(0)  # nothing of the notebook's own end, such as its exit handlers, belongs here
