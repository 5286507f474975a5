"""What a display sends to a notebook."""

import base64
import re
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output


def outputs(display: Any) -> list[dict[str, Any]]:
    """What displaying an object sends to the notebook."""
    InteractiveShell.instance()
    try:
        with capture_output() as captured:
            display._ipython_display_()
    finally:
        InteractiveShell.clear_instance()
    return [output.data for output in captured.outputs]


def svgs(html: str) -> list[str]:
    return [
        base64.b64decode(data).decode() for data in re.findall(r"svg\+xml;base64,([A-Za-z0-9+/=]*)", html)
    ]
