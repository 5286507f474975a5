"""Guessing at the sign-in: how often, from where, and what it leaves in memory."""

import asyncio
import json
import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("jupyterhub")

import argon2
from tornado.web import HTTPError

from class_support.hub import finish
from onnxlab_class.classroom.hub import authenticator as hub_authenticator
from onnxlab_class.classroom.hub.accounts import Accounts, AccountsUnreadable, Passwords
from onnxlab_class.classroom.hub.authenticator import RoomAuthenticator, Throttle

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="a class is served on Linux"),
]
ROOM, INSTRUCTOR = "seven-green-kites", "the-instructor-only-knows"


@pytest.fixture
def authenticator(tmp_path, monkeypatch) -> RoomAuthenticator:
    """The authenticator of a new class, all at one moment: a busy machine would let throttles run out.

    Argon2 is at its cheapest: else a PIN takes a fifth of a second.
    """
    monkeypatch.setattr(hub_authenticator, "time", SimpleNamespace(monotonic=lambda: 1000.0))
    cheapest = {"time_cost": 1, "memory_cost": 8, "parallelism": 1}
    monkeypatch.setattr(argon2, "PasswordHasher", partial(argon2.PasswordHasher, **cheapest))
    made = RoomAuthenticator()
    made.accounts = Accounts(tmp_path / "accounts.json")
    made.passwords = Passwords(ROOM, INSTRUCTOR)
    made.homes = tmp_path / "learners"
    return made


def answers(
    authenticator: RoomAuthenticator, names: list[str], password: str = ROOM, address: str = "10.0.0.1"
) -> list[int]:
    """Sign in with each name; return the statuses."""

    async def answer(name: str) -> int:
        handler: Any = SimpleNamespace(request=SimpleNamespace(remote_ip=address))
        form = {"username": name, "password": password, "pin": "2468"}
        try:
            await authenticator.authenticate(handler, form)
        except HTTPError as error:
            return error.status_code
        return 200

    async def all_of_them() -> list[int]:
        return await asyncio.gather(*map(answer, names))

    results: list[int] = finish(all_of_them())
    return results


def test_the_rooms_password_is_guessed_slowly_with_many_names_and_from_many_addresses(authenticator):
    names = [f"guess-{number}" for number in range(1000)]
    assert answers(authenticator, names, "wrong").count(403) <= 101
    assert answers(authenticator, ["late"]) == [429], "from this address"
    assert answers(authenticator, ["ada"], address="10.0.0.2") == [200]
    tried = sum(
        answers(authenticator, names[:100], "wrong", f"10.0.1.{number}").count(403) for number in range(20)
    )
    assert tried <= 201
    assert answers(authenticator, ["late"], address="10.0.0.3") == [429], "the whole room"


def test_guessing_gets_slower_for_that_name_only(authenticator):
    assert answers(authenticator, ["guessed"]) == [200]
    assert answers(authenticator, ["guessed"] * 20, "wrong") == [403] * 5 + [429] * 15
    assert answers(authenticator, ["guessed"]) == [429], "also with the right PIN"
    assert answers(authenticator, ["other"]) == [200]


def test_a_class_behind_one_address_gets_in_with_its_typing_errors(authenticator):
    names = [f"learner-{number}" for number in range(40)]
    for _ in range(2):
        assert set(answers(authenticator, names, "mistyped")) == {403}
    assert set(answers(authenticator, names)) == {200}
    assert set(answers(authenticator, names)) == {200}


def test_guessing_leaves_little_in_memory(authenticator):
    for number in range(30):
        names = [f"name-{number}-{place}" for place in range(100)]
        answers(authenticator, names, "wrong", f"10.0.2.{number}")
    values = vars(authenticator).values()
    remembered = [len(value._until) for value in values if isinstance(value, Throttle)]
    assert len(remembered) == 5
    assert sum(remembered) < 700
    assert not authenticator._one_at_a_time


def test_one_address_gets_few_new_names_a_minute(authenticator, tmp_path):
    names = [f"name-{number}" for number in range(110)]
    assert answers(authenticator, names).count(200) <= 101
    assert answers(authenticator, names[:1]) == [200], "a name that exists is not new"
    assert answers(authenticator, ["bob"], address="10.0.0.2") == [200]


def test_a_deleted_name_without_a_home_is_free_again(authenticator, tmp_path):
    for name in ("ada", "bob", "eve"):  # one after the other: at once, any of them may be the first
        assert answers(authenticator, [name]) == [200]
    (authenticator.homes / "ada").mkdir(parents=True)
    for name in ("ada", "bob"):
        authenticator.delete_user(SimpleNamespace(name=name))
    accounts = Accounts(tmp_path / "accounts.json")
    assert ("ada" in accounts, "bob" in accounts) == (True, False)
    assert [accounts.ensure(name).number for name in ("zoe", "ada", "eve", "yan")] == [1, 0, 2, 3]


def test_a_full_class_has_room_again_when_a_name_is_deleted(tmp_path):
    file = tmp_path / "accounts.json"
    entries = [{"name": f"name-{number}", "number": number, "pin": ""} for number in range(900)]
    file.write_text(json.dumps({"first_user": None, "accounts": entries}))
    accounts = Accounts(file)
    with pytest.raises(AccountsUnreadable, match="900 accounts"):
        accounts.ensure("late")
    accounts.forget("name-17", keep=False)
    assert accounts.ensure("late").number == 17
