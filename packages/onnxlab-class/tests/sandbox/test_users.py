"""The throw-away users of submissions and accounts."""

import itertools
import os
import sys
from pathlib import Path

import pytest

from onnxlab_class.classroom.hub.accounts import Account, Accounts
from onnxlab_class.sandbox import users

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="users are Linux's")


@pytest.fixture(params=["0 0 4294967295", "0 100000 65536"], ids=["a machine", "a container with few users"])
def root(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Root of a machine that has these users."""
    table = tmp_path / "uid_map"
    table.write_text(request.param)
    ranges = users._mapped(table)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(users, "_has", lambda _: True)
    monkeypatch.setattr(users, "_mapped", lambda _: ranges)


def test_no_index_is_a_submissions_and_an_accounts() -> None:
    ranges = (users.ACCOUNTS, users.SUBMISSIONS, users.FEW_ACCOUNTS, users.FEW_SUBMISSIONS)
    for first, other in itertools.combinations(ranges, 2):
        assert first[-1] < other[0] or other[-1] < first[0], (first, other)


@pytest.mark.usefixtures("root")
def test_no_user_is_a_submissions_and_an_accounts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """For any process ID of the grader and any block of users of a class."""
    submissions = set()
    for process in range(1, 400):
        monkeypatch.setattr(os, "getpid", lambda process=process: process)
        submissions |= {users.submission_user(slot) for slot in range(50)}
    accounts = set()
    for number in range(150):
        created = Accounts(tmp_path / f"{number}.json")
        accounts |= {created.user(Account("ada", number)) for number in (0, 450, 899)}
    assert None not in submissions | accounts
    assert not submissions & accounts


@pytest.mark.usefixtures("root")
def test_submissions_side_by_side_have_users_of_their_own() -> None:
    assert len({users.submission_user(slot) for slot in range(50)}) == 50


def test_asking_for_all_accounts_reads_what_the_system_says_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The hub asks for the users of all accounts twice in each half second: 53 ms of it for 80 accounts."""
    accounts = Accounts(tmp_path / "accounts.json")
    learners = [accounts.ensure(f"learner{number}") for number in range(80)]
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    read = []
    read_bytes = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: (read.append(path), read_bytes(path))[1])
    for _ in range(2):
        for account in learners:
            accounts.user(account)
    assert len(read) <= 6  # a capability each, and a map of users and of groups
