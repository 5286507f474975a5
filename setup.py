"""What pyproject.toml cannot say about the build: the wheel carries the course's notebooks, too.

They stand beside src/, where people read and edit them. A wheel gets a copy inside the package, in
`onnxlab/assets/course`, for `onnxlab labs`, `onnxlab reset` and the tested versions. Build in a clean
clone: labs go in as they are.
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

COURSE = (
    *("labs/*.ipynb", "labs/zh/*.ipynb", "notebooks/*.ipynb", "notebooks/zh/*.ipynb", "solutions/*.ipynb"),
    *(f"docs/{name}*.md" for name in ("course", "coverage", "gpu", "targets", "versions", "weights")),
    *("docs/images/lab_check.png", "docs/images/zh/lab_check.png", "requirements.txt"),
)


class BuildWithCourse(build_py):
    """Copies the package, and then the notebooks and the pins."""

    def run(self) -> None:
        """Build; an editable install takes the notebooks from the clone itself, and gets no copy."""
        super().run()
        if self.editable_mode:
            return
        root = Path(__file__).resolve().parent
        for file in sorted(path for pattern in COURSE for path in root.glob(pattern)):
            target = Path(self.build_lib, "onnxlab", "assets", "course", file.relative_to(root))
            self.mkpath(str(target.parent))
            self.copy_file(str(file), str(target))


setup(cmdclass={"build_py": BuildWithCourse})
