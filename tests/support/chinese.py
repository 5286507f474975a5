"""What a Chinese run should not say: English that is neither code nor quoted."""

import re

_CODE = re.compile(
    "|".join(
        [
            r"```.*?```|`[^`\n]*`|'[^'\n]*'|\"[^\"\n]*\"|\u201c[^\u201d\n]*\u201d",
            r"(?:onnxlab|pip install|python3 course\.py|sudo apt install|from onnxlab import)\b"
            r"[^\n\u3000-\u9fff\uff0c]*",
            r"[(\[{][^()\[\]{}\u3400-\u9fff]*[)\]}]",
            r"https?:\S+|--?[a-z]\S*|def \w+\([^)]*\)",
            r"[^\s`\u3000-\u9fff\uff00-\uffef]*[/_\\.=]\w\S*",  # a path, a name, an argument
        ]
    ),
    re.DOTALL,
)
TERMS = {
    "batch",
    "token",
    "tokens",
    "opset",
    "kernel",
    "zero",
    "point",
    "float",
    "double",
    "int",
    "bool",
    "string",
}
"""Words of an engineer's Chinese that may stand side by side."""

_WORDS = re.compile(r"(?<![\w.:<-])[a-z]{2,}(?: [a-z]{2,})+(?![\w.(:])")
_LINKING = re.compile(
    r"(?<![\w.-])(?:and|or|of|from|the|are|not|none|nothing|with|wrong|right|error|refused|beside)(?![\w.(=-])"
)


def english_in(text: str) -> list[str]:
    """Return the English in a text: words in a row that are no terms, and single words that link others.

    >>> english_in("\u8f93\u51fa x \u548c `the answer` \u4e0d\u540c"), english_in("\u7528 model or layer")
    ([], ['model or layer'])
    """
    found = []
    for line in text.split("\n"):
        bare = _CODE.sub("\u00b7", line)
        rows = [m[0] for m in _WORDS.finditer(bare) if not TERMS.issuperset(re.findall(r"\w+", m[0]))]
        found += rows + [m[0] for m in _LINKING.finditer(bare) if not any(m[0] in row for row in rows)]
    return found


_ASCII = re.compile(
    r"(?<=[\u3400-\u9fff])(?: ?[,;:?!] ?| )(?=[\u3400-\u9fff])|[\uff0c\u3001\uff1b\uff1a] (?=\S)"
)


def ascii_punctuation_in(text: str) -> list[str]:
    """Return the ASCII punctuation between Chinese characters, and spaces after a full-width mark.

    Columns of a table stand two spaces apart.

    >>> ascii_punctuation_in("\u8f93\u5165, \u8f93\u51fa \uff1a")
    ['\u5165, \u8f93']
    """
    return [text[max(0, m.start() - 1) : m.end() + 1] for m in _ASCII.finditer(text)]
