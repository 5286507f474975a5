"""The names that `onnxlab` offers, and the module of each; chapters and labs use no others.

Type checkers and editors read this stub, and so does __init__.py, which imports a name at its first use.
"""

from onnxlab import history as history
from onnxlab import machine as machine
from onnxlab import runtime as runtime
from onnxlab.exporters import symbolics as symbolics
from onnxlab.exporters.export import Exporter as Exporter
from onnxlab.exporters.export import export as export
from onnxlab.exporters.silence import silenced as silenced
from onnxlab.language import speak as speak
from onnxlab.model.graph import dims as dims
from onnxlab.model.graph import op_types as op_types
from onnxlab.model.graph import outline as outline
from onnxlab.model.graph import summary as summary
from onnxlab.networks import detection as detection
from onnxlab.networks import digits as digits
from onnxlab.networks import gpt as gpt
from onnxlab.networks import super_resolution as super_resolution
from onnxlab.notebook.atlas.view import atlas as atlas
from onnxlab.notebook.clinic import clinic as clinic
from onnxlab.notebook.clinic import patient as patient
from onnxlab.notebook.completion import completion as completion
from onnxlab.notebook.doctor import doctor as doctor
from onnxlab.notebook.expectations import expect_error as expect_error
from onnxlab.notebook.expectations import expect_warning as expect_warning
from onnxlab.notebook.expectations import quiet_exporters as quiet_exporters
from onnxlab.notebook.graph.view import graph as graph
from onnxlab.notebook.labs.checks import case as case
from onnxlab.notebook.labs.checks import check as check
from onnxlab.notebook.labs.checks import hint as hint
from onnxlab.notebook.labs.checks import require as require
from onnxlab.notebook.labs.progress import progress as progress
from onnxlab.notebook.outputs import live_note as live_note
from onnxlab.notebook.predict.prediction import ask_again as ask_again
from onnxlab.notebook.predict.prediction import predict as predict
from onnxlab.notebook.predict.prediction import predict_grid as predict_grid
from onnxlab.notebook.slider import slider as slider
from onnxlab.notebook.why import why as why
from onnxlab.runtime.comparison import ComparedOutput as ComparedOutput
from onnxlab.runtime.comparison import Comparison as Comparison
from onnxlab.runtime.comparison import compare_outputs as compare_outputs
from onnxlab.runtime.export_check import check_export as check_export
from onnxlab.runtime.parity import compare as compare
from onnxlab.runtime.parity import run as run
from onnxlab.tables import table as table

__version__: str
