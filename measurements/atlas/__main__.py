"""Record the operator atlas that the course ships and the web site shows.

    python -m measurements.atlas    write what the installed torch, onnx and ONNX Runtime say

A test compares the recording with the installed packages.
"""

from measurements.atlas.recording import RECORDING, recorded

if __name__ == "__main__":
    RECORDING.write_text(recorded(), "utf-8")
