"""course.py, which any Python can parse: its messages for one that is not suitable."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import course


@pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13)])
def test_a_suitable_python_is_told_nothing(version):
    assert course.unsuitable(version, True, "Linux x86_64", runs=lambda name: False) == ""


@pytest.mark.parametrize(
    ("version", "is_64_bit", "machine", "word"),
    [
        ((2, 7), True, "Linux x86_64", "too old"),
        ((3, 10), True, "Linux x86_64", "too old"),
        ((3, 14), True, "Linux x86_64", "newer than the course"),
        ((3, 12), False, "Windows x86", "32-bit"),
        ((3, 12), True, "Darwin x86_64", "Intel Macs"),
    ],
)
def test_another_is_told_what_is_wrong_why_and_what_to_do(version, is_64_bit, machine, word):
    lines = course.unsuitable(version, is_64_bit, machine, runs=lambda name: False).splitlines()
    assert len(lines) == 3
    assert word in lines[0]
    assert lines[2].startswith("Install Python 3.13")


def test_a_suitable_python_on_the_machine_is_named():
    message = course.unsuitable((3, 9), True, "Linux x86_64", runs=lambda name: name == "python3.12")
    assert message.endswith("Run: python3.12 course.py")


def test_the_range_is_the_one_of_the_package():
    pyproject = (Path(course.__file__).parent / "pyproject.toml").read_text()
    newest_not = (course.NEWEST[0], course.NEWEST[1] + 1)
    oldest, after = (".".join(map(str, version)) for version in (course.OLDEST, newest_not))
    assert f'requires-python = ">={oldest},<{after}"' in pyproject


def test_an_old_python_can_read_the_file():
    source = Path(course.__file__).read_text()
    tree = ast.parse(source, feature_version=(3, 7))  # the oldest that ast knows
    node_types = {type(node) for node in ast.walk(tree)}
    assert not node_types & {ast.JoinedStr, ast.AnnAssign}, (
        "f-strings and annotations are newer than Python 2.7"
    )
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert not [function.name for function in functions if function.returns or function.args.kwonlyargs]
    source.encode("ascii")  # Python 2 wants to be told of anything else


def test_help_needs_nothing_installed(tmp_path):
    # -S -E: no site-packages, so only the standard library is there.
    command = [sys.executable, "-S", "-E", course.__file__, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0
    assert "course.py test" in done.stdout


def test_a_class_without_a_folder_is_told_so(tmp_path):
    command = [sys.executable, "-S", "-E", course.__file__, "class"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert "no folder is named" in done.stderr


def test_the_start_imports_the_standard_library_and_the_clones_languages_only():
    root = Path(course.__file__).parent
    modules = [f"starter.{path.stem}" for path in (root / "starter").glob("[a-z]*.py")]
    code = f"import sys\nsys.path.insert(0, {str(root)!r})\nimport {', '.join(modules)}\nprint(*sys.modules)"
    # No site-packages, no folder, no variables.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    foreign = {name for name in done.stdout.split() if name.partition(".")[0] not in sys.stdlib_module_names}
    language = {"onnxlab", *(f"onnxlab.{name}" for name in ("errors", "isolation", "language", "message"))}
    assert foreign == {"__main__", "starter", *modules, *language}
