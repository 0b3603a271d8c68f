"""The numbers of the rules that operators may set while the server runs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from muster.documents.policy.running import MOST_WINDOWS, written
from muster.server.api.doors import Admin, Asking, Desk
from muster.server.api.shapes import Amount, Body, Shape
from muster.server.service import Service

router = APIRouter(prefix="/api/v1", tags=["operations"])

Given = str | int | float


class WindowBody(Body):
    """Room that is kept for services at certain times of the week, in a cluster, in a pool, or in a pool of a cluster.

    `from` and `to` are times of day such as 08:00, `days` such as mon-fri (default: all), `utcOffset` such as +08:00.
    """

    cluster: str | None = None
    pool: str | None = None
    days: str = "all"
    from_: Annotated[str, Field(alias="from")]
    to: str
    withhold: dict[str, Amount]
    shrink_ahead: Given = 0
    utc_offset: str = "+00:00"


class PolicyBody(Body):
    """What to set; null takes back what was set, and what is left out stays as it is.

    `agingAfter` is seconds or such as 12h, `overShare` a number or off, `coresPerGpu` an amount of CPU.
    """

    aging_after: Given | None = None
    over_share: Given | None = None
    cores_per_gpu: Given | None = None
    calendar: Annotated[list[WindowBody], Field(max_length=MOST_WINDOWS)] | None = None


class PolicyView(Shape):
    """What turns go by. `set`: which of these operators have set; the others are as the server was configured."""

    aging_after: float
    over_share: float | str
    cores_per_gpu: float
    calendar: list[WindowBody]
    set: list[str]


@router.get("/policy")
def policy(desk: Desk, _who: Asking) -> PolicyView:
    """The numbers of the rules, as turns go by them."""
    return _view(desk)


@router.patch("/policy")
def change_policy(body: PolicyBody, desk: Desk, who: Admin) -> PolicyView:
    """Set numbers of the rules. They hold from the next turn on, and after a restart."""
    desk.set_policy(who, _given(body))
    return _view(desk)


def _given(body: PolicyBody) -> dict[str, Any]:
    """What was sent, as it was sent."""
    given: dict[str, Any] = body.model_dump(by_alias=True, exclude_unset=True)
    return given


def _view(desk: Service) -> PolicyView:
    return PolicyView.model_validate({**written(desk.policy), "set": sorted(desk.set_of_policy())})
