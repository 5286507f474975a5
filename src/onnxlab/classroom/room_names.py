"""What learners are called on the page: a number, an animal, or their account if the instructor asks."""

import secrets
from collections.abc import Iterable
from enum import StrEnum

from onnxlab.grading.plain_text import plain

__all__ = ["Names", "RoomNames"]

_ANIMALS = tuple(
    """ant badger bat bear beaver bee bison boar buffalo camel cat cheetah cobra crab crane cricket crow deer
    dingo dolphin donkey dove duck eagle eel elephant elk falcon ferret finch fox frog gecko gibbon giraffe
    goat goose gull hamster hare hawk hedgehog heron hippo horse ibex ibis impala jackal jaguar kiwi koala
    lark lemur leopard lion lizard llama lobster lynx magpie marmot mole moose moth mouse newt octopus orca
    osprey ostrich otter owl oyster panda parrot penguin puffin puma quail rabbit raccoon raven rhino robin
    salmon seal shark sheep skunk sloth snail sparrow spider squid stork swan tapir tiger toad tortoise
    toucan trout turkey turtle viper vole walrus wasp weasel whale wolf wombat wren yak zebra""".split()  # noqa: SIM905 (a list to be read)
)


class Names(StrEnum):
    """How learners are named."""

    NUMBERS = "numbers"
    ANIMALS = "animals"
    ACCOUNTS = "accounts"


class RoomNames:
    """The numbers of a room: drawn at random for those who are there, then in the order of coming."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def meet(self, accounts: Iterable[str]) -> None:
        """Give numbers to those who have none."""
        new = sorted(account for account in accounts if account not in self._numbers)
        secrets.SystemRandom().shuffle(new)
        for account in new:
            self._numbers[account] = len(self._numbers) + 1

    def number(self, account: str) -> int:
        """Return a learner's number."""
        return self._numbers[account]

    def name(self, account: str, names: Names) -> str:
        """Return what a learner is called.

        Example:
            >>> room = RoomNames()
            >>> room.meet(["ada"])
            >>> [room.name("ada", each) for each in Names]
            ['1', 'ant', 'ada']
        """
        if names is Names.ACCOUNTS:
            return plain(account, 80)
        number = self._numbers[account]
        if names is Names.NUMBERS:
            return str(number)
        round_, which = divmod(number - 1, len(_ANIMALS))
        return f"{_ANIMALS[which]} {round_ + 1}" if round_ else _ANIMALS[which]
