"""Record the operator atlas for the web site, which has no torch to ask: site/atlas.json.

    python -m tools.record_atlas    write what the installed torch, onnx and ONNX Runtime say

A test compares the recording with the installed packages.
"""

from pathlib import Path

from onnxlab.notebook.atlas.view import packed

RECORDING = Path(__file__).parents[1] / "site" / "atlas.json"
"""Where the site's build reads it."""


def recorded() -> str:
    """Return the atlas in the form of the file. It takes seconds."""
    return packed() + "\n"


if __name__ == "__main__":
    RECORDING.write_text(recorded(), "utf-8")
    print(f"written: {RECORDING}")
