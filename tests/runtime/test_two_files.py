"""What docs/targets.md says of models in two files, with the programs that are installed."""

import importlib.util
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

pytestmark = pytest.mark.slow  # other programs


@pytest.fixture(scope="module")
def two_files(tmp_path_factory) -> tuple[Path, torch.Tensor, np.ndarray]:
    """A model beside its external data, an input, and PyTorch's output."""
    path = tmp_path_factory.mktemp("two") / "two.onnx"
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 3), torch.nn.Conv2d(64, 64, 3)).eval()
    x = torch.rand(1, 3, 10, 10)
    torch.onnx.export(network, (x,), path, external_data=True, verbose=False)
    assert path.with_name("two.onnx.data").exists()
    with torch.no_grad():
        return path, x, network(x).numpy()


def test_openvino_reads_both(two_files):
    openvino = pytest.importorskip("openvino")
    path, x, expected = two_files
    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    np.testing.assert_allclose(compiled(x.numpy())[0], expected, atol=1e-5)


def test_pnnx_reads_both_under_a_relative_name_only(two_files):
    package = importlib.util.find_spec("pnnx")
    if package is None:
        pytest.skip("pnnx is not installed")
    path, _, expected = two_files
    program = Path(package.submodule_search_locations[0], "pnnx")
    for name, converted in ((str(path), False), (path.name, True)):
        command = [program, name, "inputshape=[1,3,10,10]"]
        done = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == converted
        assert path.with_suffix(".ncnn.param").exists() == converted
    ncnn = pytest.importorskip("ncnn")
    net = ncnn.Net()
    assert net.load_param(str(path.with_suffix(".ncnn.param"))) == 0
    assert net.load_model(str(path.with_suffix(".ncnn.bin"))) == 0
    extractor = net.create_extractor()
    extractor.input("in0", ncnn.Mat(two_files[1][0].numpy()).clone())
    _, output = extractor.extract("out0")
    np.testing.assert_allclose(np.asarray(output), expected[0], atol=1e-2)  # ncnn computes in half precision
