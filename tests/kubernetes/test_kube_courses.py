"""What containers without a machine do: their commands are honoured as far as they can be."""

from __future__ import annotations

import pytest

from muster.kubernetes.dev.courses import Course, course_of

OTHERWISE = Course(42.0, 7)


@pytest.mark.parametrize(
    "words, course",
    [
        pytest.param(["sleep", "20"], Course(20.0, 0), id="sleep runs so long and succeeds"),
        pytest.param(["/bin/sleep", "0.5"], Course(0.5, 0), id="a path is the same program"),
        pytest.param(["sleep", "1m", "30s"], Course(90.0, 0), id="sleep adds up its arguments, with units"),
        pytest.param(["sleep", "infinity"], Course(None, 0), id="sleep infinity runs until it is told to end"),
        pytest.param(["exit", "3"], Course(0.0, 3), id="exit N fails at once"),
        pytest.param(["exit", "259"], Course(0.0, 3), id="exit codes have eight bits"),
        pytest.param(["true"], Course(0.0, 0), id="true succeeds at once"),
        pytest.param(["false"], Course(0.0, 1), id="false fails at once"),
        pytest.param(["sh", "-c", "sleep 2; exit 4"], Course(2.0, 4), id="a script goes on to its exit"),
        pytest.param(["bash", "-c", "echo hi && sleep 1\nfalse"], Course(1.0, 1), id="the last command's code counts"),
        pytest.param(["sh", "-c", "exit 0; sleep 9"], Course(0.0, 0), id="nothing runs after exit"),
        pytest.param(["sh", "-c", "false; exit"], Course(0.0, 1), id="exit without a number keeps the last code"),
        pytest.param(["python", "train.py"], OTHERWISE, id="another program takes the course of the cluster"),
        pytest.param(["sh", "-c", "sleep 1; ./train"], OTHERWISE, id="a script with another program does too"),
        pytest.param(["sh", "-c", "echo 'open"], OTHERWISE, id="a quote that does not close is not understood"),
        pytest.param(["sleep", "soon"], OTHERWISE, id="a time that is none is not understood"),
        pytest.param([], OTHERWISE, id="an image's own command is not known"),
    ],
)
def test_course(words: list[str], course: Course) -> None:
    assert course_of(words, OTHERWISE) == course
