"""What is right in carried-state."""

from onnxlab.judges.lab15_sequences.requested import Verdict
from onnxlab.labs.lab15_sequences.carried_state import REQUEST

JUDGES = Verdict(
    REQUEST,
    look_at={
        "": "What does the first time step of this piece read, in each of the two layers that look "
        "back? And is each operation of the given network there?",
        "next_frames": "Which time steps does the convolution need before the next piece, however short?",
        "next_h": "The LSTM returns its state (h, c) after the last time step.",
        "next_c": "The LSTM returns its state (h, c) after the last time step.",
    },
).judges
