"""What a kernel of the course's JupyterLab runs before the first cell; a Python in a terminal does, too."""

import sys

if "ipykernel" in sys.modules:
    from onnxlab.notebook.missing_names import explain_missing_names

    explain_missing_names()
    del explain_missing_names
del sys
