"""Failures as data: causes, message and stage."""

from pkgutil import resolve_name

import pytest
import torch

from onnxlab.exporters.export import _STAGE_OF_FUNCTION, Exporter, Stage, export, failure

SCRIPT = "torch.onnx._internal.torchscript_exporter"
EXPORT = "torch.onnx._internal.exporter"
STAGES = [
    (Exporter.TORCHSCRIPT, f"{SCRIPT}.utils:_pre_trace_quant_model", Stage.CAPTURE),
    (Exporter.TORCHSCRIPT, f"{SCRIPT}.utils:_create_jit_graph", Stage.CAPTURE),
    (Exporter.TORCHSCRIPT, f"{SCRIPT}.utils:_get_example_outputs", Stage.CAPTURE),
    (Exporter.TORCHSCRIPT, f"{SCRIPT}.utils:_model_to_graph", Stage.TRANSLATE),
    (Exporter.TORCHSCRIPT, f"{SCRIPT}.onnx_proto_utils:_add_onnxscript_fn", Stage.SERIALISE),
    (Exporter.TORCHSCRIPT, f"{SCRIPT}.onnx_proto_utils:_export_file", Stage.SERIALISE),
    (Exporter.TORCH_EXPORT, f"{EXPORT}._core:_prepare_exported_program_for_export", Stage.DECOMPOSE),
    (Exporter.TORCH_EXPORT, f"{EXPORT}._core:_exported_program_to_onnx_program", Stage.TRANSLATE),
    (Exporter.TORCH_EXPORT, f"{EXPORT}._core:onnxscript_apis.convert_version", Stage.TRANSLATE),
    (Exporter.TORCH_EXPORT, f"{EXPORT}._onnx_program:ONNXProgram.optimize", Stage.TRANSLATE),
    (Exporter.TORCH_EXPORT, f"{EXPORT}._ir_passes:rename_inputs", Stage.TRANSLATE),
    (Exporter.TORCH_EXPORT, f"{EXPORT}._ir_passes:rename_outputs", Stage.TRANSLATE),
    (Exporter.TORCH_EXPORT, f"{EXPORT}._onnx_program:ONNXProgram.save", Stage.SERIALISE),
]
"""Where each function of the table is that the exporter calls, and the stage at which a fault in it is."""


def test_every_function_of_the_table_is_tried():
    names = [place.replace(":", ".").rpartition(".")[2] for _, place, _ in STAGES]
    assert sorted(names) == sorted(_STAGE_OF_FUNCTION)  # a row taken out and put back by a test comes last


@pytest.mark.usefixtures("remembered_translations")
@pytest.mark.parametrize(("exporter", "place", "stage"), STAGES, ids=[place for _, place, _ in STAGES])
def test_a_fault_in_a_function_of_an_exporter_is_at_its_stage_and_without_its_row_at_another(
    exporter, place, stage, monkeypatch
):
    module, _, path = place.partition(":")
    *owner, name = path.split(".")
    holder = resolve_name(module)
    for part in owner:
        holder = getattr(holder, part)
    namespace = {"__name__": module}
    exec(f"def {name}(*args, **kwargs):\n    raise OSError('here')", namespace)
    monkeypatch.setattr(holder, name, namespace[name])
    model = torch.jit.script(torch.nn.ReLU()) if "example" in name else torch.nn.ReLU()

    result = export(model, torch.ones(2), exporter, input_names=["x"], output_names=["y"], run=False)
    assert "here" in f"{result.failure.message}{result.failure.causes}"
    assert result.failure.stage is stage
    monkeypatch.delitem(_STAGE_OF_FUNCTION, name)
    assert failure(result.failure.exception).stage is not stage


def raised(function):
    try:
        function()
    except Exception as error:
        return error
    pytest.fail("nothing was raised")


def test_causes_are_listed_from_the_outside_in():
    def chained():
        try:
            try:
                raise KeyError("innermost")
            except KeyError as error:
                raise ValueError("inner\nmore of it") from error
        except ValueError:
            raise RuntimeError("outer")  # noqa: B904 - the implicit chain is what is tested

    chain = failure(raised(chained))
    assert (chain.error, chain.message) == ("RuntimeError", "outer")
    assert chain.causes == ("ValueError: inner", "KeyError: 'innermost'")


def test_a_suppressed_cause_is_not_listed():
    def hidden():
        try:
            raise KeyError("detail")
        except KeyError:
            raise ValueError("told") from None

    assert failure(raised(hidden)).causes == ()


def test_a_circular_chain_ends():
    first, second = ValueError("one"), ValueError("two")
    first.__cause__, second.__cause__ = second, first
    assert failure(first).causes == ("ValueError: two",)


def test_colours_are_removed():
    assert failure(ValueError("\x1b[96mstep 1/3\x1b[0m failed")).message == "step 1/3 failed"


def test_an_error_outside_of_the_exporters_is_capture():
    assert failure(ValueError("bad argument")).stage is Stage.CAPTURE
    assert failure(ValueError("bad argument"), Stage.RUN).stage is Stage.RUN


def test_a_function_of_the_same_name_elsewhere_does_not_decide():
    def save():
        raise OSError("disk full")

    assert failure(raised(save)).stage is Stage.CAPTURE


def test_an_empty_message_is_possible():
    assert failure(ZeroDivisionError()).message == ""
