"""What pyproject.toml cannot say: onnxlab-class has the version of onnxlab, and requires exactly that one.

The version stands in the repository's pyproject.toml; an sdist lacks that file and has it in PKG-INFO.
"""

import tomllib
from email import message_from_string
from pathlib import Path

from setuptools import setup

_FOLDER = Path(__file__).resolve().parent
_PROJECT, _SDIST = _FOLDER.parents[1] / "pyproject.toml", _FOLDER / "PKG-INFO"


def version() -> str:
    """Return the version of the course."""
    if _SDIST.is_file():
        return str(message_from_string(_SDIST.read_text(encoding="utf-8"))["Version"])
    return str(tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]["version"])


setup(
    version=version(),
    install_requires=[
        f"onnxlab=={version()}",
        "jinja2>=3.1",  # what `onnxlab grade` writes its pages with
        "markupsafe>=3.0",
    ],
)
