"""Watching what learners' processes use, from outside: a kernel that uses too much is ended."""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from onnxlab.classroom.accounts import Accounts
from onnxlab.classroom.hub_processes import Seen, end, look, remove_shared_memory, shares
from onnxlab.classroom.hub_settings import ServeSettings
from onnxlab.classroom.learner_server import account_user, learner_users
from onnxlab.classroom.notice_file import leave_notice
from onnxlab.grading.process_tree import calm, memory

__all__ = ["Watcher"]

_MB = 2**20
_HONEST_THREADS = 64  # some notebooks at once; more are put behind everybody else's
_HONEST_PROCESSES, _THREADS_OF_A_PROCESS = 16, 4
_SECONDS_TO_END = 20.0
_QUIET_LOOKS = 3  # one look can miss a process whose parent ends at that moment


@dataclass(frozen=True)
class _Excess:
    """Something that uses too much: what to end, and why."""

    victims: list[Seen]
    why: str


class Watcher:
    """Looks at all accounts' processes, time and again."""

    def __init__(self, settings: ServeSettings, accounts: Accounts, told: Callable[[str, str], None]) -> None:
        """Watch the processes below this one.

        Args:
            settings: The limits.
            accounts: Whose processes there may be.
            told: Is called with an account's name and why something of it was ended.
        """
        self._settings, self._accounts, self._told = settings, accounts, told

    def look(self) -> None:
        """Look once, and end what uses too much."""
        servers = self._servers()
        found = self._by_account(servers)
        users = learner_users(self._accounts)
        remove_shared_memory({user for user, name in users.items() if name not in found})
        for name, own in found.items():
            server = servers.get(name, (0, 0))[1]
            excess = self._excess(own, server)
            if excess is None:
                continue
            with contextlib.suppress(OSError):  # on a full disk it is ended without a word
                leave_notice(self._settings.notices / name, excess.why)  # first: the death is noticed at once
            self._end(name, excess.victims, own, servers)
            self._told(name, excess.why)

    def _servers(self) -> dict[str, tuple[int, int]]:
        """Return for each account its server's keeper and its server."""
        found = {}
        for path in self._settings.running.iterdir():
            with contextlib.suppress(OSError, ValueError):
                keeper, server = path.read_text().split()
                found[path.name] = (int(keeper), int(server))
        return found

    def _by_account(self, servers: dict[str, tuple[int, int]]) -> dict[str, dict[int, Seen]]:
        """Return each account's processes: by their user, or else by what is below its server's keeper."""
        everything = look(os.getpid())
        users = {}
        for name in self._accounts.names():
            account = self._accounts.get(name)
            user = account_user(self._settings, self._accounts, account) if account else None
            if user is not None:
                users[user] = name
        keepers = {keeper: name for name, (keeper, _) in servers.items()}
        found: dict[str, dict[int, Seen]] = {}
        for number, seen in everything.items():
            if number in keepers:
                continue
            owner = users.get(seen.user)
            up = number
            while owner is None and up in everything:
                owner = keepers.get(up)
                up = everything[up].parent
            if owner is not None:
                found.setdefault(owner, {})[number] = seen
        return found

    def _excess(self, own: dict[int, Seen], server: int) -> _Excess | None:
        groups = shares(own, server)
        started = [seen for group in groups for seen in group]
        threads = sum(seen.threads for seen in own.values())
        if threads > _HONEST_THREADS:
            calm((seen.process for seen in started), _HONEST_THREADS)
        # A process is counted as some threads: one with torch in it is as much work to start and to end.
        crowd = threads + _THREADS_OF_A_PROCESS * max(0, len(own) - _HONEST_PROCESSES)
        if groups and crowd > 0.9 * self._settings.processes:
            largest = max(groups, key=lambda group: sum(seen.threads for seen in group))
            why = f"your code had {len(own)} processes with {threads} threads, which is too many."
            return _Excess(largest, f"ONNX Lab ended this kernel: {why}")
        most = self._settings.memory * _MB
        if sum(seen.memory for seen in own.values()) <= most:
            return None
        used = memory([seen.process for seen in own.values()], most)
        if used <= most:
            return None
        groups = [*groups, [own[server]]] if server in own else groups
        largest = max(groups, key=lambda group: memory([seen.process for seen in group], 0))
        what = "server" if server in own and largest == [own[server]] else "kernel"
        why = f"your notebooks used {used // _MB} MB of memory; {self._settings.memory} MB are allowed."
        return _Excess(largest, f"ONNX Lab ended this {what}: {why}")

    def _end(
        self, name: str, victims: list[Seen], own: dict[int, Seen], servers: dict[str, tuple[int, int]]
    ) -> None:
        """End processes, and what they start while they are being ended."""
        spared = {seen.process for seen in own.values()} - {seen.process for seen in victims}
        todo, quiet = victims, 0
        until = time.monotonic() + _SECONDS_TO_END
        while quiet < _QUIET_LOOKS and time.monotonic() < until:
            end(todo, signal.SIGSTOP)
            end(todo)
            time.sleep(0.01)
            now = self._by_account(servers).get(name, {})
            todo = [seen for seen in now.values() if seen.process not in spared]
            quiet = 0 if todo else quiet + 1
