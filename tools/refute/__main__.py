"""Run the probes and print which sentences hold.

python -m tools.refute [NUMBER ...]     all chapters, or those whose file names start so
python -m tools.refute --list           every sentence that might be probed, and how many there are
python -m tools.refute --write          write docs/refute.md as well
"""

import argparse
import sys

from tools.refute import CLAIMS
from tools.refute.claims import refute
from tools.refute.report import PAGE, page
from tools.refute.sentences import chapters, sentences


def list_sentences(numbers: list[str]) -> None:
    """Print every sentence of an Explain and every general sentence, and count them."""
    explains = general = 0
    for path in chapters():
        if path.name.startswith(tuple(numbers or [""])):
            for one in sentences(path):
                marks = ("E" if one.is_explain else " ") + ("*" if one.is_general else " ")
                print(f"{path.stem[:3]} {marks} {one.text}")
                explains += one.is_explain
                general += one.is_general
    print(
        f"\n{explains} sentences of Explains; {general} sentences, there and elsewhere, that speak of all or none"
    )


def main() -> int:
    """Run what the arguments ask for; return 1 if a sentence fell."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.refute",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("numbers", nargs="*", metavar="NUMBER")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.list:
        list_sentences(options.numbers)
        return 0
    results = []
    for one in sorted(CLAIMS, key=lambda one: one.notebook):
        if one.notebook.startswith(tuple(options.numbers or [""])):
            verdict = refute(one)
            results.append((one, verdict))
            word = "holds" if verdict.holds else "FELL"
            print(
                f"{one.notebook[:3]} {word:5} {verdict.attempts:>4} {verdict.seconds:>4.0f} s  {one.name}",
                flush=True,
            )
            for text in verdict.counterexamples[:5]:
                print(f"        {text[:200]}")
    fallen = sum(not verdict.holds for _, verdict in results)
    print(f"{len(results) - fallen} hold, {fallen} fell")
    if options.write and not options.numbers:
        PAGE.write_text(page(results), encoding="utf-8")
    return int(bool(fallen))


if __name__ == "__main__":
    sys.exit(main())
