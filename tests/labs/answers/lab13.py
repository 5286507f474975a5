"""Right and wrong answers for lab 13."""

from functools import partial

from onnxlab.kit.outcome import Status
from tests.support.labs import Contract, WrongAnswer, solution

clip = partial(solution, "clip-fault")
heading = partial(solution, "heading-fault")
shares = partial(solution, "shares-fault")
scale = partial(solution, "scale-fault")
louder = partial(solution, "louder-fault")
CLIP = "signal = (x * 1.5).clamp(-6, 6)"
WITNESS = 'return "capture", (torch.tensor([[9.0]]),)'
HEADING = "torch.where(north == 0, on_axis, torch.atan2(north, east))"
HALF = "2 * torch.atan(north / (torch.sqrt(north * north + east * east) + east))"
SCORE = "score = 1 / (1 + torch.exp(-x))"
SCALE = "torch.where(x > 2, x, torch.nn.functional.softplus(x))"
LOUDER = "torch.maximum(left.int(), right.int()).short()"
CHANNELS = 'return "load", (torch.tensor([1], dtype=torch.int16), torch.tensor([2], dtype=torch.int16))'

CONTRACTS = {
    "clip-fault": Contract(
        right=(
            clip(),
            clip({CLIP: "signal = torch.minimum(torch.maximum(x * 1.5, torch.tensor(-6.0)), torch.tensor(6.0))"}),
            clip({CLIP: "signal = torch.nn.functional.hardtanh(x, -4, 4) * 1.5", "[[9.0]]": "[[1.0, -5.0]]"}),
        ),
        wrong=(
            WrongAnswer("no stage", clip({'"capture"': '"tracing"'}), "'tracing' is not a stage"),
            WrongAnswer("small values", clip({"[[9.0]]": "[[3.0]]"}), "agree for these inputs"),
            WrongAnswer("a vector", clip({"[[9.0]]": "[9.0]"}), "float32 with one axis"),
            WrongAnswer("the stage alone", clip({WITNESS: 'return "capture"'}), "a tuple was expected"),
            WrongAnswer("the ill module", clip({CLIP: "signal = x * 1.5\n        signal.data.clamp_(-6, 6)"}), "The torch.export exporter failed at stage decompose"),
            WrongAnswer("one side", clip({CLIP: "signal = (x * 1.5).clamp(max=6)"}), "and of large negative ones"),
            WrongAnswer("through float16", clip({CLIP: "signal = (x.half() * 1.5).clamp(-6, 6).float()"}), "In PyTorch"),
            WrongAnswer("frozen", clip({CLIP: "signal = (x * 1.5).clamp(-6, 6) + torch.zeros(2, 3)"}), "This happened for the repaired module in PyTorch", Status.ERROR),
        ),
    ),
    "heading-fault": Contract(
        right=(
            heading(),
            heading({HEADING: "torch.where(north == 0, on_axis, torch.atan(north / east) + torch.where(east < 0, torch.sign(north) * torch.pi, 0.0))"}),
            heading({"[0.0]": "[0.0, 1.0]", "[-1.0]": "[0.0, 1.0]"}),
        ),
        wrong=(
            WrongAnswer("a vector off the axes", heading({"[0.0]": "[0.5]"}), "agree for these inputs"),
            WrongAnswer("right in the file only", heading({HEADING: f"{HEADING} if torch.onnx.is_in_onnx_export() or torch.compiler.is_exporting() else north * 0"}), "In PyTorch, the repaired module does not return what IllHeading returns"),
            WrongAnswer("nearly zero is zero", heading({"north == 0": "abs(north) < 1e-3"}), "In PyTorch"),
            WrongAnswer("half the angle", heading({HEADING: f"torch.where(north == 0, on_axis, {HALF})"}), "In PyTorch"),
            WrongAnswer("no heading of minus pi", heading({HEADING: f"(lambda y: torch.where(y <= -torch.pi, torch.pi, y))({HEADING})"}), "In PyTorch"),
            WrongAnswer("the ill module", heading({HEADING: "torch.atan2(north, east)"}), "Go round the circle"),
            WrongAnswer("zero on the axis", heading({HEADING: "torch.where(north == 0, north, torch.atan2(north, east))"}), "for north 0, east -1: "),
            WrongAnswer("no half-planes", heading({HEADING: "torch.where(north == 0, on_axis, torch.atan(north / east))"}), "The outputs differ from PyTorch's"),
        ),
    ),
    "scale-fault": Contract(
        right=(
            scale(),
            scale({SCALE: "torch.where(x > 2, x, -torch.log(torch.sigmoid(-x)))"}),
            scale({SCALE: "torch.where(x > 2, x, torch.log(1 + x.clamp(max=2).exp()))", "[[3.0]]": "[[0.0, 2.5]]"}),
        ),
        wrong=(
            WrongAnswer("another stage", scale({'"translate"': '"capture"'}), "does not arise at stage 'capture'"),
            WrongAnswer("below the threshold", scale({"[[3.0]]": "[[1.5]]"}), "agree for these inputs"),
            WrongAnswer("no threshold", scale({SCALE: "torch.nn.functional.softplus(x)"}), "just above it"),
            WrongAnswer("the threshold belongs to the wrong side", scale({"x > 2": "x >= 2"}), "The outputs differ from PyTorch's"),
            WrongAnswer("frozen", scale({SCALE: SCALE + " + torch.zeros(2, 3)"}), "This happened for the repaired module in PyTorch", Status.ERROR),
        ),
    ),
    "louder-fault": Contract(
        right=(
            louder(),
            louder({LOUDER: "torch.maximum(left.float(), right.float()).short()"}),
            louder({LOUDER: "(left.int() + (right.int() - left.int()).clamp(min=0)).short()"}),
        ),
        wrong=(
            WrongAnswer("another stage", louder({'"load"': '"run"'}), "does not arise at stage 'run'"),
            WrongAnswer("int32", louder({"torch.tensor([1], dtype=torch.int16)": "torch.tensor([1], dtype=torch.int32)"}), "int32 with one axis"),
            WrongAnswer("one input", louder({CHANNELS: 'return "load", (torch.tensor([1], dtype=torch.int16),)'}), "inputs returned: 1; inputs of the module: 2"),
            WrongAnswer("unequal lengths", louder({"[1]": "[1, 2]", "[2]": "[1, 2, 3]"}), "PyTorch does not accept"),
            WrongAnswer("the ill module", louder({LOUDER: "torch.maximum(left, right)"}), "Could not find an implementation for Max"),
            WrongAnswer("an int32 output", louder({LOUDER: "torch.maximum(left.int(), right.int())"}), "The output's type is not PyTorch's"),
            WrongAnswer("float16 inside", louder({LOUDER: "torch.maximum(left.half(), right.half()).short()"}), "largest and the smallest sample"),
            WrongAnswer("the difference overflows", louder({LOUDER: "(left.int() + (right - left).int().clamp(min=0)).short()"}), "The outputs differ from PyTorch's"),
        ),
    ),
    "shares-fault": Contract(
        right=(
            shares(),
            shares({SCORE: "score = torch.exp(-torch.nn.functional.softplus(-x))"}),
            shares({SCORE: "score = torch.exp(x.clamp(max=0)) / (1 + torch.exp(-x.abs()))", "[[-20.0, -21.0]]": "[[0.0, 1.0], [-40.0, -30.0]]"}),
        ),
        wrong=(
            WrongAnswer("another stage", shares({'"run"': '"translate"'}), "Run the same file in `onnx.reference`"),
            WrongAnswer("one strong candidate", shares({"[[-20.0, -21.0]]": "[[-20.0, 1.0]]"}), "agree for these inputs"),
            WrongAnswer("the ill module", shares({SCORE: "score = torch.sigmoid(x)"}), "The outputs differ from PyTorch's"),
            WrongAnswer("by logarithms", shares({SCORE: "score = torch.softmax(torch.nn.functional.logsigmoid(x), 1)"}), "The outputs differ from PyTorch's"),
            WrongAnswer("a softmax", shares({SCORE: "score = torch.softmax(x, 1)"}), "In PyTorch, the repaired module does not return what IllShares returns"),
            WrongAnswer("a small number is added", shares({"score.sum(1, keepdim=True)": "(score.sum(1, keepdim=True) + 1e-9)"}), "In PyTorch"),
            WrongAnswer("over the first axis", shares({"score.sum(1": "score.sum(0"}), "In PyTorch"),
            WrongAnswer("changes its input", shares({SCORE: "score = 1 / (1 + torch.exp(x.neg_()))"}), "An argument was changed by the call"),
        ),
    ),
}
