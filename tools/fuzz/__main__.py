"""The fuzzer's commands; each prints a table, and ends with 1 if there was a fault.

    python -m tools.fuzz models --trials 2000 --seed 1      # twenty minutes on an idle core, with the judges
    python -m tools.fuzz models --first 731 --trials 1      # one trial again
    python -m tools.fuzz commands --trials 300              # doctor, compare, open and why
    python -m tools.fuzz answers --trials 2000             # damaged folders of answers, for every judge
    python -m tools.fuzz notebooks --trials 500             # ten minutes on two cores
    python -m tools.fuzz kills --times 200                  # half an hour
    python -m tools.fuzz power --times 1000                 # two minutes; needs strace

They need Linux and the environment for tests. The same seed gives the same files; moments of kills differ.
"""

import argparse
import os
import sys

from tools.fuzz.answers import fuzz_answers
from tools.fuzz.commands import fuzz_commands
from tools.fuzz.kills import cut_power, kill_graders
from tools.fuzz.models import fuzz_models
from tools.fuzz.notebooks import fuzz_notebooks


def main(arguments: list[str] | None = None) -> int:
    """Run one of the commands; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["answers", "commands", "models", "notebooks", "kills", "power"])
    parser.add_argument("--trials", "--times", type=int, default=100, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--first", type=int, default=0, help="models, commands: the number of the first trial"
    )
    parser.add_argument(
        "--every", type=int, default=1, help="models: judges of every Nth exercise only; 0: of none"
    )
    parser.add_argument("--isolation", default="auto", help="notebooks, kills: as for onnxlab grade")
    options = parser.parse_args(arguments)
    if options.what == "models":
        table = fuzz_models(options.trials, options.seed, first=options.first, every=options.every)
    elif options.what == "commands":
        table = fuzz_commands(options.trials, options.seed, first=options.first)
    elif options.what == "answers":
        table = fuzz_answers(options.trials, options.seed, first=options.first, every=options.every)
    elif options.what == "notebooks":
        table = fuzz_notebooks(options.trials, options.seed, isolation=options.isolation)
    elif options.what == "kills":
        table = kill_graders(options.trials, options.seed, isolation=options.isolation)
    else:
        table = cut_power(options.trials, options.seed)
    print(table)
    return 1 if table.faults else 0


if __name__ == "__main__":
    os.nice(10)
    sys.exit(main())
