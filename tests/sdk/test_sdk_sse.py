"""Streams of events: however the bytes were cut, the same messages come out."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.sdk.events import Following, event_of
from muster.sdk.sse import Message, Reader


@pytest.mark.parametrize(
    "stream, messages",
    [
        pytest.param(b"data: a\n\n", [Message("message", "a", "")], id="what has no kind is a message"),
        pytest.param(
            b"event: e\ndata: a\nid: 7\n\n", [Message("e", "a", "7")], id="a kind, what it says, and its number"
        ),
        pytest.param(b"data: a\r\ndata: b\r\n\r\n", [Message("message", "a\nb", "")], id="several lines are one text"),
        pytest.param(b"data:a\rid:3\r\r", [Message("message", "a", "3")], id="lines may end as on old machines"),
        pytest.param(b": nothing new\n\ndata: a\n\n", [Message("message", "a", "")], id="a comment says nothing"),
        pytest.param(b"data: a\n", [], id="what is not over is not told"),
        pytest.param(b"event: e\n\ndata: a\n\n", [Message("message", "a", "")], id="a kind without words is nothing"),
        pytest.param(
            b"id: 1\ndata: a\n\ndata: b\n\n",
            [Message("message", "a", "1"), Message("message", "b", "1")],
            id="the number stays until there is another",
        ),
        pytest.param(b"id: 1\0\ndata: a\n\n", [Message("message", "a", "")], id="half a number is none"),
        pytest.param(b"\xef\xbb\xbfdata: a\n\n", [Message("message", "a", "")], id="a mark of the encoding in front"),
        pytest.param(b"data\nretry: 5\n\n", [Message("message", "", "")], id="a name alone is an empty line"),
        pytest.param(b"data:  a: b\n\n", [Message("message", " a: b", "")], id="one space is not meant, a second is"),
    ],
)
def test_a_stream_is_read_as_it_is_meant(stream: bytes, messages: list[Message]) -> None:
    assert Reader().feed(stream) == messages
    one_by_one = Reader()
    assert [found for byte in stream for found in one_by_one.feed(bytes([byte]))] == messages


_LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0"), max_size=12)
_MESSAGE = st.builds(Message, event=_LINE.filter(bool), data=_LINE, id=_LINE)


@given(
    messages=st.lists(_MESSAGE, max_size=5),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    cuts=st.lists(st.integers(0, 400)),
    comments=st.lists(_LINE, max_size=3),
)
def test_where_a_stream_was_cut_does_not_matter(
    messages: list[Message], end: str, cuts: list[int], comments: list[str]
) -> None:
    lines = [f": {comment}" for comment in comments]
    for message in messages:
        lines += [f"event: {message.event}", f"data: {message.data}", f"id: {message.id}", ""]
    stream = "".join(line + end for line in lines).encode()
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})

    reader = Reader()
    chunks = [stream[start:end] for start, end in pairwise(places)]
    assert [found for chunk in chunks for found in reader.feed(chunk)] == messages


def test_an_event_has_its_number_its_time_and_all_that_is_known() -> None:
    event = event_of(Message("started", '{"t": 1.5, "event": "started", "job": "a-1", "attempt": 2}', "17"))

    assert (event.id, event.t, event.event, event.job, event.queue) == (17, 1.5, "started", "a-1", "")
    assert event.facts["attempt"] == 2


def test_who_reconnects_asks_for_what_came_after_the_last_event() -> None:
    following = Following(after=3, queue="q", job_set="", job="", follow=True)
    assert ("after", "3") in following.ask().params

    list(following.feed(b'id: 9\nevent: e\ndata: {"t": 1}\n\nid: 10\nevent: e\ndata: {"t"'))
    assert dict(following.ask().params) == {"queue": "q", "after": "9", "follow": "true"}

    assert [event.id for event in following.feed(b'id: 10\nevent: e\ndata: {"t": 1}\n\n')] == [10]
    list(following.feed(b"id: 40\n: nothing for you\n\n"))
    assert ("after", "40") in following.ask().params
