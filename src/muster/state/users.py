"""What users hold, with a quota or not yet: the quota may come later."""

from __future__ import annotations

from muster.model.queues import User
from muster.model.resources import NOTHING, Resources
from muster.model.snapshot import UserState
from muster.state.tally import Tally


class Users(dict[str, User]):
    """The users with a quota, and what everyone's started and raced jobs hold."""

    def __init__(self) -> None:
        super().__init__()
        self._started: dict[str, Tally] = {}
        self._raced: dict[str, Tally] = {}

    def fork(self) -> Users:
        """A copy that can go its own way."""
        other = Users()
        other.update(self)
        other._started = {name: tally.copy() for name, tally in self._started.items()}
        other._raced = {name: tally.copy() for name, tally in self._raced.items()}
        return other

    def start(self, user: str, resources: Resources, sign: int) -> None:
        """Tasks of the user start (sign +1) or end (-1)."""
        if user:
            self._started.setdefault(user, Tally()).add(resources, sign)

    def race(self, user: str, resources: Resources, sign: int) -> None:
        """A race of the user begins (sign +1) or is over (-1)."""
        if user:
            self._raced.setdefault(user, Tally()).add(resources, sign)

    def held(self, user: str) -> Resources:
        """What the started and raced jobs of a user hold."""
        return _amounts(self._started, user) + _amounts(self._raced, user)

    def states(self) -> tuple[UserState, ...]:
        """Every user with a quota as a frozen value."""
        return tuple(
            UserState(user=user, started=_amounts(self._started, name), raced=_amounts(self._raced, name))
            for name, user in self.items()
        )


def _amounts(tallies: dict[str, Tally], user: str) -> Resources:
    tally = tallies.get(user)
    return NOTHING if tally is None else tally.amounts()
