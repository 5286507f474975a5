"""`python -m onnxlab.cli` is the `onnxlab` command."""

import sys

from onnxlab.cli import main

sys.exit(main())
