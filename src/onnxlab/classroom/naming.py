"""The name of a user who is in no list of the system: accounts that the hub gives are in none."""

import os

__all__ = ["name_this_user"]


def name_this_user() -> None:
    """Let this process find its own user by number, with the name and the home that its variables say.

    nbgrader, `getpass` and others fail for a user without an entry.
    """
    try:
        import pwd
    except ImportError:  # Windows
        return
    look_up = pwd.getpwuid
    user, name, home = os.getuid(), os.environ.get("USER"), os.environ.get("HOME")
    try:
        look_up(user)
    except KeyError:
        if name and home:
            own = pwd.struct_passwd((name, "x", user, os.getgid(), name, home, "/bin/sh"))
            pwd.getpwuid = lambda number: own if number == user else look_up(number)
