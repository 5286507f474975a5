"""Exercise container-options: the SessionOptions for a container with quotas, and with several sessions.

What is asked, and what is drawn for it:

- the CPUs that the process is allowed: numbers that neither begin with 0 nor follow each other;
- quotas of the container's group and those above it: none, one, several, the smallest first, last, between;
- quotas by their own period; `max`; parts of a CPU, less than one, a line that ends;
- sessions that compute at the same time: one, several, more than CPUs; at least one thread for each;
- one thread between operators, sequential execution, no spinning; everything else as it was;
- new options for each call: they are read after the last call;
- a session with them: the threads that it starts, its outputs.
"""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types
import psutil  # type: ignore[import-untyped]  # ships no types

from onnxlab.kit.exercise import Answers
from onnxlab.kit.exporting import require_type, require_untouched
from onnxlab.kit.outcome import Wrong, trying
from onnxlab.kit.samples import Sketch
from onnxlab.kit.work import Work
from onnxlab.message import Message
from onnxlab.model.distance import Array

MOST = 64
"""More threads than any session here may have: it is not opened."""
ENTRIES = (
    *("session.intra_op.allow_spinning", "session.inter_op.allow_spinning", "session.dynamic_block_base"),
    *("session.force_spinning_stop", "session.disable_prepacking", "session.set_denormal_as_zero"),
)
SETTINGS = (
    *("inter_op_num_threads", "execution_mode", "graph_optimization_level", "enable_mem_pattern"),
    *("enable_cpu_mem_arena", "enable_mem_reuse", "use_per_session_threads", "enable_profiling"),
)


@dataclass(frozen=True)
class Container:
    """A container, and how many sessions compute in it at the same time."""

    where: str
    limits: tuple[str, ...]
    allowed: frozenset[int]
    sessions: int

    def as_case(self) -> AbstractContextManager[None]:
        """Attach this case to whatever is raised in the block."""
        limits, allowed = list(self.limits), set(self.allowed)
        case = Message("the case '{where}'", where=self.where)
        return trying(case, limits=limits, allowed=allowed, sessions=self.sessions)


def draw_containers(random: np.random.Generator) -> Iterator[Container]:
    """Draw containers of each kind."""
    many = 24

    def draw(*quotas: float | None, where: str, allowed: int = many, sessions: int = 1) -> Container:
        limits = []
        for quota in quotas:
            period = 1000 * int(random.choice([20, 50, 100, 200]))
            limits.append(f"{'max' if quota is None else round(quota * period)} {period}\n")
        numbers = random.permutation(64)[:allowed].tolist()
        return Container(where, tuple(limits), frozenset(numbers), sessions)

    def part() -> float:
        return float(random.uniform(0.6, 0.95))

    few = int(random.integers(5, 9))
    yield draw(None, allowed=few, where=Message("No quota"))
    yield draw(allowed=few, where=Message("No file with a quota"))
    yield draw(float(few), where=Message("A quota of whole CPUs"))
    yield draw(few + part(), where=Message("A quota with a part of a CPU"))
    yield draw(0.3 * part(), where=Message("A quota of less than one CPU"))
    yield draw(few + 4.0, allowed=few, where=Message("A quota above the allowed CPUs"))
    yield draw(few + 3.0, None, float(few), where=Message("The group above has the smaller quota"))
    yield draw(few + part(), few + 5.0, None, where=Message("The container has the smaller quota"))
    yield draw(few + 2.0, few - part(), few + 1.0, where=Message("The smallest quota is between two others"))
    two = (f"{few * 200_000} 200000\n", f"{(few + 1) * 20_000} 20000\n")
    yield Container(
        where=Message("Two quotas with two periods"), limits=two, allowed=frozenset(range(many)), sessions=1
    )
    yield Container(
        where=Message("Two quotas with two periods, in turn"),
        limits=two[::-1],
        allowed=frozenset(range(many)),
        sessions=1,
    )
    yield draw(2 * few + 1 + part(), sessions=2, where=Message("A quota and two sessions"))
    yield draw(None, allowed=11, sessions=3, where=Message("Three sessions share the allowed CPUs"))
    yield draw(3 + part(), sessions=few, where=Message("More sessions than CPUs"))
    yield draw(part(), allowed=few, sessions=4, where=Message("Four sessions and less than one CPU"))
    yield draw(4.0, allowed=1, where=Message("One allowed CPU"))


def draw_model(random: np.random.Generator) -> tuple[onnx.ModelProto, Array]:
    """Draw a model and an input for it."""
    sketch = Sketch(random)
    x = sketch.name()
    product = sketch.add("MatMul", x, sketch.weight(sketch.normal(6, 5)))
    model = sketch.model({x: ("n", 6)}, {sketch.add("Tanh", product): ("n", 5)})
    return model, sketch.normal(3, 6).astype(np.float32)


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Ask for the options of each container; then read them, and open a session with them."""
    containers = list(draw_containers(random))
    model, x = draw_model(random)
    options: dict[int, ort.SessionOptions] = {}
    for number in map(int, random.permutation(len(containers))):
        container = containers[number]
        with container.as_case():
            arguments = list(container.limits), set(container.allowed), container.sessions
            result = answers["container_options"](*arguments)
            require_untouched(arguments, (list(container.limits), set(container.allowed), container.sessions))
            if any(result is earlier for earlier in options.values()):
                raise Wrong(
                    "container_options() returned the object of an earlier call again.",
                    "Each call returns new options: what is set for one container must not change another's.",
                )
            options[number] = result
            require_type(options[number], ort.SessionOptions, "container_options()")
            if (threads := options[number].intra_op_num_threads) > MOST:
                msg = Message(
                    "{container.where}: {threads} threads; no container here has {most} CPUs.",
                    container=container,
                    threads=threads,
                    most=MOST,
                )
                raise Wrong(msg, "Which of the three arguments limits the CPUs?")
    settings = []
    for number, container in enumerate(containers):
        with container.as_case():
            chosen = options[number]
            values = {name: str(getattr(chosen, name)) for name in SETTINGS}
            values |= {entry: _entry(chosen, entry) for entry in ENTRIES}
            started, outputs = _run(chosen, model, x)
            work.write_array(f"outputs_{number}", outputs)
            settings.append([chosen.intra_op_num_threads, started, values])
    work.write_json("settings", settings)


def _entry(options: ort.SessionOptions, entry: str) -> str:
    """Return the value of a configuration entry."""
    try:
        return str(options.get_session_config_entry(entry))
    except RuntimeError:
        return "not set"


def _run(options: ort.SessionOptions, model: onnx.ModelProto, x: Array) -> tuple[int, Array]:
    """Return how many threads a session with these options starts, and its output.

    Where the answers run in the notebook's own process, whose other threads come and go, they are -1.
    """
    before = psutil.Process().num_threads()
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    started = psutil.Process().num_threads() - before if sys.platform == "linux" else -1
    (outputs,) = session.run(None, {session.get_inputs()[0].name: x})
    return started, outputs
