"""Wheels of empty packages, for indexes and pages of links on this machine."""

import zipfile
from pathlib import Path


def make_torch(folder: Path, version: str, name: str = "torch", tag: str = "py3-none-any") -> None:
    """Write the wheel of a version into a folder."""
    metadata = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-{tag}.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", "")
        wheel.writestr(f"{metadata}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{metadata}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
        wheel.writestr(f"{metadata}/RECORD", "")
