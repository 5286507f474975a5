"""What the marks of a run may depend on, besides its seed."""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["facts"]


def facts(level: str) -> dict[str, str]:
    """Return what a run's marks may depend on: versions, and how submissions were confined."""
    found = {"level": level}
    for name in ("onnxlab", "torch", "onnx", "onnxruntime", "onnxscript"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
