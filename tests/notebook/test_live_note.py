"""A note about the machine: on the screen, never in the file."""

import nbformat
from nbclient import NotebookClient

from onnxlab.notebook.live_note import live_note


def test_in_a_terminal_it_is_printed(capsys):
    live_note("no compiler")
    assert capsys.readouterr().out == "no compiler\n"


def test_in_a_notebook_it_is_a_widget_and_nothing_else():
    code = "from onnxlab.notebook.live_note import live_note\nlive_note('<b>no</b> compiler')"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    client = NotebookClient(notebook, kernel_name="python3", startup_timeout=180, iopub_timeout=60)
    client.execute()
    [output] = notebook.cells[0].outputs
    assert list(output.data) == ["application/vnd.jupyter.widget-view+json"]
    model = output.data["application/vnd.jupyter.widget-view+json"]["model_id"]
    shown = client.widget_state[model]["value"]
    assert "&lt;b&gt;no&lt;/b&gt; compiler" in shown
