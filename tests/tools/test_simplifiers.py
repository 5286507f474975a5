"""What counts nodes and equal runs, on a network whose size is baked into the file."""

import torch

from tools import simplifiers


def test_a_run_that_stops_or_differs_is_not_equal(tmp_path):
    network = simplifiers.Flatten().eval()
    runs = [torch.rand(2, 3, 6, 7), torch.rand(1, 3, 9, 5)]
    path = tmp_path / "free.onnx"
    axes = {"x": {0: "n", 2: "h", 3: "w"}}
    torch.onnx.export(network, (runs[0],), path, input_names=["x"], dynamo=False, dynamic_axes=axes)
    feeds = [{"x": run.numpy()} for run in runs]
    with torch.no_grad():
        expected = [[network(run).numpy()] for run in runs]
    assert simplifiers.equal_runs(path, feeds, expected) == 2
    assert simplifiers.equal_runs(path, feeds, [[-values[0]] for values in expected]) == 0
    fixed = simplifiers.fix_sizes(path, feeds[0])
    assert simplifiers.equal_runs(fixed, feeds, expected) == 1
