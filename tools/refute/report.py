"""What docs/refute.md says of a run."""

from pathlib import Path

from tools.refute.claims import Claim, Verdict
from tools.refute.sentences import chapters, count_by_proof

PAGE = Path(__file__).resolve().parents[2] / "docs" / "refute.md"


def page(results: list[tuple[Claim, Verdict]]) -> str:
    """Return docs/refute.md for a run of all probes."""
    fell = [(one, verdict) for one, verdict in results if one.fell]
    now = [one for one, verdict in results if not verdict.holds]
    count = count_by_proof()
    attempts = sum(verdict.attempts for _, verdict in results)
    lines = [
        "# Sentences that were put to the test",
        "",
        "A chapter's sentence about *every*, *all*, *only*, *must*, *never*, *nothing* or *always* can be false without an",
        "output that shows it. `python -m tools.refute` runs a probe for each that might be: it tries other networks,",
        "opsets, sizes, types and edge values, and the other exporter. `--list` lists the sentences, `--write` writes this",
        "page. A test holds that each sentence stands word for word in its chapter, and runs the quick probes.",
        "",
        f"- {len(chapters())} chapters have {count['explain']} sentences in Explains and {count['general']} general ones, there and elsewhere:",
        f"  {count['all']} sentences together. {count['proved']} of them stand in a section with a folded proof.",
        f"- All were read. {len(results)} were put to the test, with {attempts} attempts; the others were judged definitions,",
        "  instructions, reports of a measurement that the cell beside them makes, or proved there. That judgement",
        "  is a reader's, and no program can repeat it.",
        f"- {len(results) - len(fell)} held as they stood. {len(fell)} fell and were corrected. {len(now)} fall today.",
        "",
        "## What fell",
        "",
        "| chapter | the sentence that fell | what refuted it | it says now |",
        "|---|---|---|---|",
    ]
    for one, _ in fell:
        lines.append(
            f"| {one.notebook[:3].rstrip('_')} | {cell(one.fell)} | {one.why} | {cell(one.sentence)} |"
        )
    lines += ["", "## What was tried", "", "| chapter | probe | attempts | result |", "|---|---|---|---|"]
    for one, verdict in results:
        word = "holds" if verdict.holds else "falls"
        lines.append(
            f"| {one.notebook[:3].rstrip('_')} | {one.name} | {verdict.attempts} | {word}{', corrected' if one.fell else ''} |"
        )
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """Return a sentence for a table of a page beside the chapters' folder."""
    return (
        text.replace("|", "\\|").replace("](", "](../notebooks/")
        if ".ipynb" in text
        else text.replace("|", "\\|")
    )
