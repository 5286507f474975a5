"""Reading the code cells of well-formed, odd and damaged notebooks."""

import contextlib
import json
import random

import nbformat
import pytest

from onnxlab_class.grading.submissions import NotebookUnreadable, cells_of


def notebook(*sources, **more) -> dict:
    cells = [{"cell_type": "code", "source": source} for source in sources]
    return {"cells": cells, "nbformat": 4, "nbformat_minor": 5, **more}


def packed(value) -> bytes:
    return json.dumps(value).encode()


GOOD = [
    (notebook("x = 1"), ["x = 1"]),
    (notebook(["x = 1\n", "y"]), ["x = 1\ny"]),
    (notebook("a", "a"), ["a", "a"]),
    (notebook("!rm -rf /\n%time x"), ["!rm -rf /\n%time x"]),
    (notebook("x", metadata={"kernelspec": {"name": "julia", "language": "julia"}}), ["x"]),
    (notebook("x", metadata=None, nbformat="four"), ["x"]),
    (notebook("x", cells=[{"cell_type": "code", "source": "x", "outputs": ["y" * 3_000_000]}]), ["x"]),
    (notebook(None, 3, {"a": 1}, [1, "x", None], [[]]), ["", "", "", "x", ""]),
    ({"cells": ["text", None, 3, {}, {"cell_type": "code"}]}, [""]),
    ({"cells": [{"cell_type": "markdown", "source": "x"}]}, []),
    ({"cells": [{"cell_type": ["code"], "source": "x"}]}, []),
    ({"worksheets": [{"cells": [{"cell_type": "code", "input": ["a\n", "b"]}]}, 3]}, ["a\nb"]),
    (notebook("\ud800\x00\u2028"), ["\ud800\x00\u2028"]),
    (notebook("r\r\n"), ["r\r\n"]),
]


@pytest.mark.parametrize(("value", "sources"), GOOD)
def test_cells_are_found(value, sources):
    assert cells_of(packed(value)) == sources


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_any_unicode(encoding):
    assert cells_of(json.dumps(notebook("ü = 1"), ensure_ascii=False).encode(encoding)) == ["ü = 1"]


def test_format_3_as_nbformat_writes_it():
    three = nbformat.v3.new_notebook(
        worksheets=[
            nbformat.v3.new_worksheet(
                cells=[nbformat.v3.new_text_cell("markdown", "t"), nbformat.v3.new_code_cell("x = 1\ny")]
            )
        ]
    )
    assert cells_of(nbformat.v3.writes_json(three).encode()) == ["x = 1\ny"]


BAD = {
    b"": "empty",
    b" \n": "empty",
    b"\xef\xbb\xbf": "empty",
    b"\x00" * 100: "empty",
    b"{": "not JSON",
    b'{"cells": [': "not JSON",
    b"print('hello')": "not JSON",
    b"<html></html>": "not JSON",
    b"PK\x03\x04": "not JSON",
    b"\x89PNG\r\n\x1a\n": "not text",
    b'{"cells": "\xff"}': "not text",
    b"[]": "not a notebook",
    b"3": "not a notebook",
    b"null": "not a notebook",
    b'"cells"': "not a notebook",
    b"{}": "not a notebook",
    b'{"cells": []}': "no cells",
    b'{"cells": null}': "no cells",
    b'{"cells": {"0": {}}}': "no cells",
    b'{"worksheets": []}': "no cells",
    b'{"worksheets": [{}], "cells": 3}': "no cells",
    b"[" * 200_000: "no notebook",
    b'{"cells": ' + b"9" * 5000 + b"}": "no notebook",
    b'{\n "cells": [\n<<<<<<< HEAD\n{}\n=======\n': "merge conflict",
}


@pytest.mark.parametrize("data", BAD, ids=lambda data: repr(data[:20]))
def test_what_is_no_notebook_says_so_in_a_line(data):
    with pytest.raises(NotebookUnreadable, match=BAD[data]) as caught:
        cells_of(data)
    assert "\n" not in str(caught.value)


def odd_value(rng: random.Random, depth: int = 0):
    kinds = [None, True, 0, -1.5, "", "code", "\ud83d", "x = 1\n", 10**30]
    if depth > 4 or rng.random() < 0.4:
        return rng.choice(kinds)
    if rng.random() < 0.5:
        return [odd_value(rng, depth + 1) for _ in range(rng.randint(0, 4))]
    names = ["cells", "worksheets", "cell_type", "source", "input", "metadata", "nbformat", "outputs"]
    return {name: odd_value(rng, depth + 1) for name in rng.sample(names, rng.randint(0, 6))}


def test_three_hundred_odd_notebooks_give_texts_or_one_error():
    rng = random.Random(300)
    counts = {"cells": 0, "refused": 0}
    for _ in range(300):
        cells = [
            {"cell_type": rng.choice(["code", "code", "markdown", 3]), "source": odd_value(rng)}
            if rng.random() < 0.7
            else odd_value(rng)
            for _ in range(rng.randint(0, 6))
        ]
        data = packed({rng.choice(["cells", "cells", "worksheets"]): rng.choice([cells, [{"cells": cells}]])})
        try:
            sources = cells_of(data)
        except NotebookUnreadable:
            counts["refused"] += 1
        else:
            counts["cells"] += 1
            assert all(isinstance(source, str) for source in sources)
    assert min(counts.values()) > 20


def test_three_hundred_damaged_files_give_texts_or_one_error():
    rng = random.Random(301)
    original = packed(
        notebook("def f(x):\n    return x", ["a\n", "b"], metadata={"kernelspec": {"name": "python3"}})
    )
    for _ in range(300):
        data = bytearray(original)
        for _ in range(rng.randint(1, 5)):
            place = rng.randrange(len(data))
            change = rng.randrange(3)
            if change == 0:
                data[place] = rng.randrange(256)
            elif change == 1:
                del data[place : place + rng.randint(1, 20)]
            else:
                data[place:place] = rng.randbytes(3)
        with contextlib.suppress(NotebookUnreadable):
            assert all(isinstance(source, str) for source in cells_of(bytes(data)))
