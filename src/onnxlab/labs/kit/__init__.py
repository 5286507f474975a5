"""What every exercise stands on: its record, how it is produced, judged and shown, and what is kept."""
