"""A wheel of an empty torch, for indexes and pages of links on this machine."""

import zipfile
from pathlib import Path


def make_torch(folder: Path, version: str) -> None:
    """Write the wheel of a version into a folder."""
    metadata = f"torch-{version}.dist-info"
    with zipfile.ZipFile(folder / f"torch-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("torch.py", "")
        wheel.writestr(f"{metadata}/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
        wheel.writestr(f"{metadata}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{metadata}/RECORD", "")
