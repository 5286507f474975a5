"""The answers of the site's script why.js, run in a JavaScript engine."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import quickjs

from onnxlab.diagnosis.messages import explain, read, script_data

SCRIPT = Path(__file__).parents[2] / "site" / "page" / "why.js"


@cache
def _engine() -> Any:
    engine = quickjs.Context()
    engine.eval(f"globalThis.onnxlabData = {{'messages.js': {json.dumps(script_data())}}};")
    engine.eval(SCRIPT.read_text("utf-8"))
    return engine


def require_same(text: str) -> None:
    """Assert that the page and Python give the same answers to a message, and the same stage."""
    engine = _engine()
    engine.eval(f"onnxlabWhy({json.dumps(text)}).then((r) => {{ result = [r, r.stage?.name ?? '']; }});")
    while engine.execute_pending_job():
        pass
    page, stage = json.loads(engine.eval("JSON.stringify(result)"))
    assert [(a["name"], a["certainty"], a["cause"], a["fix"], a["title"], a["page"]) for a in page] == [
        (a.name, a.certainty, a.cause, a.fix, a.title, f"errors/{a.name}.html") for a in explain(text)
    ]
    read_stage = read(text).stage
    assert stage == (read_stage.name if read_stage else "")
