"""Whether a race may begin: races count no usage, but a cordon or a quota holds them back like any job."""

from __future__ import annotations

from muster.engine.limits import first_over
from muster.model.plan import Waiting
from muster.model.queues import Queue, User
from muster.model.reasons import Reason
from muster.model.resources import Resources


def held_back(
    asks: Resources, queue: Queue, held: Resources, user: User | None, held_by_user: Resources
) -> Waiting | None:
    """Why a race that asks for so much may not begin; None: it may. `held` is what queue and user hold without it."""
    if queue.cordoned:
        return Waiting(reason=Reason.QUEUE_CORDONED, facts={"queue": queue.name})
    if over := first_over(held + asks, queue.quota, asks):
        return Waiting(reason=Reason.QUOTA, facts={"queue": queue.name, **over})
    if user is not None and (over := first_over(held_by_user + asks, user.quota, asks)):
        return Waiting(reason=Reason.USER_QUOTA, facts={"user": user.name, **over})
    return None
