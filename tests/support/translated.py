"""What has to be the same in a notebook and its translation: the code but for the words in it."""

import ast

__all__ = ["code_without_words"]

_SPEAKS = 'import onnxlab\n\nonnxlab.speak("zh")\n\n'


class _Wordless(ast.NodeTransformer):
    """Takes out docstrings, questions and captions; comments are not in the tree."""

    def visit_Call(self, node: ast.Call) -> ast.Call:
        name = getattr(node.func, "id", "")
        if name == "predict" and node.args:
            node.args[0] = ast.Constant("")
        for word in node.keywords:
            if (name, word.arg) in (("predict_grid", "question"), ("table", "caption")):
                word.value = ast.Constant("")
        self.generic_visit(node)
        return node

    def _without_docstring(self, node):
        if ast.get_docstring(node) is not None:
            node.body[0] = ast.Pass()
        self.generic_visit(node)
        return node

    visit_FunctionDef = visit_ClassDef = _without_docstring  # noqa: N815  # names that ast asks for


def code_without_words(source: str) -> str:
    """Return a cell's code in one normal form; the source itself where it is not Python alone."""
    source = source.removeprefix(_SPEAKS)
    try:
        return ast.dump(_Wordless().visit(ast.parse(source)))
    except SyntaxError:
        return source
