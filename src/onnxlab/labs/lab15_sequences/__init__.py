"""Lab 15: a state handed on, a padded batch read in both directions, a spectrogram of real numbers."""
