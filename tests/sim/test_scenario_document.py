"""Reading YAML: lines are remembered, and what could hurt is refused before it does."""

from __future__ import annotations

import os
import pickle
import threading
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from muster.documents import building, document
from muster.documents.values import List, Map, Scalar, plain
from muster.sim.scenario.loader import load, parse
from muster.sim.scenario.problems import MOST_PROBLEMS, Problem, Problems, ScenarioError, quoted


def read(text: str | bytes) -> object:
    problems = Problems("test")
    value = document.read(text if isinstance(text, bytes) else document.encoded(text, problems), problems)
    if problems:
        raise problems.error()
    return plain(value)


def refusal(text: str | bytes) -> list[Problem]:
    with pytest.raises(ScenarioError) as caught:
        read(text)
    return list(caught.value.problems)


# --- what values mean ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "written, meant",
    [
        pytest.param("on", True, id="on is a boolean in YAML 1.1"),
        pytest.param("off", False, id="off is a boolean in YAML 1.1"),
        pytest.param("'on'", "on", id="quoted on is text"),
        pytest.param('"08:00"', "08:00", id="a quoted time is text"),
        pytest.param("10:30", "10:30", id="a time without quotes is not six hundred and thirty"),
        pytest.param("1:30.5", "1:30.5", id="nor is one with a fraction"),
        pytest.param("2026-11-02", "2026-11-02", id="a date is text"),
        pytest.param("1_000", 1000, id="underscores separate digits"),
        pytest.param("0x10", 16, id="hexadecimal is a number"),
        pytest.param("0x_", "0x_", id="a hexadecimal number without digits is text"),
        pytest.param("010", 8, id="a leading zero is octal in YAML 1.1"),
        pytest.param("1.5", 1.5, id="a fraction is a number"),
        pytest.param("1e3", "1e3", id="an exponent without a point is text in YAML 1.1"),
        pytest.param("9" * 5000, "9" * 5000, id="a number too long to be one is text"),
        pytest.param("~", None, id="a tilde is nothing"),
        pytest.param("", None, id="no value is nothing"),
        pytest.param("!!str 12", "12", id="a tag makes text of a number"),
        pytest.param("!!int '12'", 12, id="a tag makes a number of text"),
        pytest.param("4Gi", "4Gi", id="a quantity is text"),
    ],
)
def test_scalars_follow_yaml_1_1_where_that_does_not_surprise(written: str, meant: object) -> None:
    value = read(f"key: {written}")

    assert value == {"key": meant}
    assert type(value["key"]) is type(meant)


def test_keys_are_the_text_that_was_written() -> None:
    assert read("on: 1\n7: 2\n1.50: 3\n") == {"on": 1, "7": 2, "1.50": 3}


def test_every_value_and_key_remembers_its_line() -> None:
    value = document.read(b"# a comment\na: 1\nb:\n  - x\n  - {c: 2,\n     d: 3}\n", Problems("test"))

    assert isinstance(value, Map)
    assert value.lines == {"a": 2, "b": 3}
    listed = value.values["b"]
    assert isinstance(listed, List)
    inner = listed.items[1]
    assert isinstance(inner, Map)
    assert (inner.line, inner.lines) == (5, {"c": 5, "d": 6})
    assert inner.values["d"] == Scalar(6, 3, "3")


@pytest.mark.parametrize(
    "text, meant",
    [
        pytest.param("{a: &x [1, 2], b: *x}", {"a": [1, 2], "b": [1, 2]}, id="an alias repeats its anchor"),
        pytest.param("{a: &x 1, b: [&x 2, *x], c: *x}", {"a": 1, "b": [2, 2], "c": 2}, id="the last anchor counts"),
        pytest.param("{a: &x {p: 1}, b: {<<: *x, q: 2}}", {"a": {"p": 1}, "b": {"p": 1, "q": 2}}, id="<< merges"),
        pytest.param(
            "{a: &x {p: 1}, b: {p: 3, <<: *x}}", {"a": {"p": 1}, "b": {"p": 3}}, id="a key beats a merged one"
        ),
        pytest.param("{<<: [{p: 1}, {p: 2, q: 2}]}", {"p": 1, "q": 2}, id="the first of several merged ones counts"),
        pytest.param("{'<<': {p: 1}}", {"<<": {"p": 1}}, id="quoted << is a key like others"),
        pytest.param("{&k a: 1, b: *k}", {"a": 1, "b": "a"}, id="a key may be an anchor"),
    ],
)
def test_anchors_and_merges(text: str, meant: object) -> None:
    assert read(text) == meant


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, line, path, says",
    [
        pytest.param("", 1, "", "the file is empty", id="an empty file"),
        pytest.param("# nothing\n", 1, "", "the file is empty", id="a file of comments"),
        pytest.param("---\n~\n", 1, "", "the file is empty", id="a document that is nothing"),
        pytest.param("a: 1\n---\nb: 2\n", 2, "", "only one is allowed", id="two documents"),
        pytest.param("a: 1\nb: 2\na: 3\n", 3, "a", "'a' stands on line 1 and on line 3", id="a key twice"),
        pytest.param("j:\n- {c: 1}\n- {c: 1, c: 1}", 3, "j[1].c", "on line 3 and on line 3", id="a nested key twice"),
        pytest.param("{<<: {a: 1}, <<: {b: 1}}", 1, "<<", "once is allowed", id="two merges"),
        pytest.param("a: 1\n<<: 3", 2, "<<", "a mapping or a list of mappings", id="a merge of a number"),
        pytest.param("a: 1\n? [1]\n: 2\n", 2, "", "a key must be text", id="a list as a key"),
        pytest.param("a: 1\n~: 2\n", 2, "", "a key must be text", id="nothing as a key"),
        pytest.param("a: &x [1, *x]", 1, "a[1]", "stands inside of what it repeats", id="an anchor that holds itself"),
        pytest.param("a: &x {<<: *x}", 1, "a.<<", "stands inside of what it repeats", id="a merge that holds itself"),
        pytest.param("a: 1\nb: *x", 2, "b", "'*x' has no anchor before it", id="an alias of nothing"),
        pytest.param("a: !!python/object:os.system x", 1, "a", "tags other than", id="a tag that means nothing here"),
        pytest.param("a: !!set {x}", 1, "a", "tags other than", id="a tag of a collection"),
        pytest.param("a: !!int x", 1, "a", "'x' is not allowed: its tag says !!int", id="a tag that does not fit"),
        pytest.param("a: 1\nb: [1", 3, "", "not YAML", id="a list that does not end"),
        pytest.param("a: b: c", 1, "", "mapping values are not allowed in this context (column 5)", id="a stray colon"),
        pytest.param("a: 1\n\tb: 2", 2, "", "(column 1)", id="a tab"),
        pytest.param("a: 1\nb: \x01", 2, "", "control characters are not allowed", id="a control character"),
        pytest.param("a: 1\nb: \ud800", 2, "", "not UTF-8", id="half a character"),
        pytest.param(b"a: 1\nb: \xff", 2, "", "not UTF-8: byte 0xff", id="a byte that is not UTF-8"),
        pytest.param("a: 1".encode("utf-16"), 1, "", "not UTF-8", id="UTF-16"),
        pytest.param("a: 1".encode("utf-16-le"), 1, "", "control characters", id="UTF-16 without its mark"),
        pytest.param("%TAG !a! b\n" * 17 + "--- {}", 0, "", "at most 16 are allowed", id="many directives"),
    ],
)
def test_what_is_not_one_plain_document_is_refused(text: str | bytes, line: int, path: str, says: str) -> None:
    (problem,) = refusal(text)

    assert (problem.line, problem.path) == (line, path)
    assert says in problem.message


def test_duplicates_and_bad_keys_are_reported_together_in_order_of_line() -> None:
    problems = refusal("a: 1\nb: {x: 1, x: 2}\n~: 3\na: !!set {}\n")

    assert [problem.line for problem in problems] == [2, 3, 4, 4]


def test_a_key_that_is_long_or_odd_stays_on_one_short_line() -> None:
    for key in ("k" * 10_000, '"new\\nline"'):
        (problem,) = refusal(f"{key}: 1\n{key}: 2\n")

        assert "\n" not in str(problem)
        assert len(str(problem)) < 400


BILLION_LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 30)
)
MERGED_LAUGHS = "a0: &a0 {k0: 1, k1: 1}\n" + "".join(
    f"a{level}: &a{level} {{k: {{<<: [{', '.join([f'*a{level - 1}'] * 20)}]}}, l: *a{level - 1}}}\n"
    for level in range(1, 30)
)
LONG_TEXT = f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 100_000)}]\n"
QUIET_LAUGHS = f"a: &a [{'x, ' * 500}]\nb: [{', '.join(['*a'] * 400)}]\n"


@pytest.mark.parametrize(
    "text, says",
    [
        pytest.param(BILLION_LAUGHS, "values, aliases expanded", id="a billion laughs"),
        pytest.param(MERGED_LAUGHS, "values, aliases expanded", id="a billion laughs by merging"),
        pytest.param(LONG_TEXT, "values, aliases expanded", id="a long text repeated often"),
        pytest.param(QUIET_LAUGHS, "aliases repeat", id="two hundred thousand values from one thousand"),
        pytest.param("[" * 100_000, "nested too deeply", id="a hundred thousand lists in lists"),
        pytest.param("{" * 100_000, "nested too deeply", id="a hundred thousand mappings in mappings"),
        pytest.param("{a: " * 100_000, "nested too deeply", id="a hundred thousand keys in keys"),
        pytest.param("- " * 100_000, "nested too deeply", id="a hundred thousand dashes"),
        pytest.param("? " * 100_000, "nested too deeply", id="a hundred thousand question marks"),
        pytest.param("[&a " * 100_000, "nested too deeply", id="a hundred thousand anchors in each other"),
        pytest.param(
            "a: &a " + "[" * 60 + "]" * 60 + "\nb: " + "[" * 60 + "*a" + "]" * 60,
            "nested too deeply",
            id="depth by way of an alias",
        ),
        pytest.param("%TAG !a! tag:x\n" * 100_000, "at most 16", id="a hundred thousand directives"),
    ],
)
def test_what_would_hurt_is_refused_at_once(text: str, says: str) -> None:
    started = time.monotonic()

    problems = refusal(text)

    assert says in problems[-1].message
    assert time.monotonic() - started < 5


def test_a_hundred_levels_are_fine() -> None:
    assert read("[" * building.MOST_DEPTH + "]" * building.MOST_DEPTH)


def test_modest_use_of_aliases_is_fine() -> None:
    assert len(read(f"a: &a [{'x, ' * 100}]\nb: [{', '.join(['*a'] * 400)}]\n")["b"]) == 400  # type: ignore[index]


def test_a_file_with_very_many_problems_is_given_up() -> None:
    problems = refusal("".join(f"k{number}: 1\nk{number}: 2\n" for number in range(2 * MOST_PROBLEMS)))

    assert len(problems) == MOST_PROBLEMS + 1
    assert problems[-1] == Problem("", 0, f"stopped after {MOST_PROBLEMS} problems: there may be more")


# --- files --------------------------------------------------------------------------------------


def test_a_file_over_64_mib_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        file.truncate((64 << 20) + 1)

    with pytest.raises(ScenarioError, match="too large: at most 64 MiB are allowed"):
        load(str(path))


def test_a_pipe_is_not_read_past_64_mib(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def pour() -> None:
        with path.open("wb") as pipe:
            try:
                while True:
                    pipe.write(b"#" * (1 << 20))
            except BrokenPipeError:
                pipe.raw.close()

    pouring = threading.Thread(target=pour)
    pouring.start()
    with pytest.raises(ScenarioError, match="too large"):
        load(str(path))
    pouring.join(timeout=10)
    assert not pouring.is_alive()


def test_a_pipe_can_be_loaded(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writing = threading.Thread(target=path.write_text, args=("until: 5s\n",))
    writing.start()

    assert load(str(path)).until_ms == 5000
    writing.join()


@pytest.mark.parametrize(
    "path, says",
    [
        pytest.param("/nowhere/at/all.yaml", "No such file or directory", id="a file that is not there"),
        pytest.param("/", "Is a directory", id="a directory"),
        pytest.param("a\0b", "null", id="a path that cannot be"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error_like_others(path: str, says: str) -> None:
    with pytest.raises(ScenarioError, match=says) as caught:
        load(path)

    assert caught.value.name == path


def test_an_error_has_one_line_per_problem_and_survives_pickling() -> None:
    with pytest.raises(ScenarioError) as caught:
        parse("jobs: 3\nqueues: 4\n", "some.yaml")

    assert str(caught.value) == ("line 1: jobs: '3' is not allowed: a list\nline 2: queues: '4' is not allowed: a list")
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (copied.problems, copied.name) == (caught.value.problems, "some.yaml")


# --- properties ---------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *(
            "a",
            "b: ",
            "- ",
            "? ",
            ": ",
            "[",
            "]",
            "{",
            "}",
            ",",
            "\n",
            "\n  ",
            " ",
            "&x ",
            "*x",
            "<<: ",
            "!!int ",
            "! ",
        ),
        *("|\n", ">", "'", '"', "#", "%TAG", "---\n", "...\n", "0x_", "1:30", ".inf", "~", "\t", "\x85", "\ufeff", "="),
    ]
)
YAML_LIKE = st.lists(PIECES, max_size=60).map("".join)


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))))
@example(b"\xef\xbb\xbfa: 1")
@example(b"a: \x00")
@example(b'"\\ud800"')
def test_property_any_bytes_are_read_or_refused(data: bytes) -> None:
    _read_or_refuse(data)


@given(YAML_LIKE)
def test_property_anything_like_yaml_is_read_or_refused(text: str) -> None:
    _read_or_refuse(text.encode("utf-8", "replace"))


@given(YAML_LIKE)
def test_property_the_parser_without_libyaml_is_as_safe(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document, "_LOADER", yaml.SafeLoader)
        _read_or_refuse(text.encode("utf-8", "replace"))


def _read_or_refuse(data: bytes) -> None:
    problems: tuple[Problem, ...] = (Problem("", 0, "none"),)
    try:
        document.read(data, Problems("test"))
    except ScenarioError as err:
        problems = err.problems
    lines = len(data.decode("utf-8", "replace").splitlines())
    assert problems
    assert all(0 <= problem.line <= lines + 1 for problem in problems)


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=5), plain_values, min_size=1, max_size=5))
def test_property_what_was_dumped_is_read_back(value: dict[str, object]) -> None:
    text = yaml.dump(value, Dumper=yaml.CSafeDumper, allow_unicode=True)

    assert read(text) == yaml.load(text, Loader=yaml.CSafeLoader)


@given(st.text())
def test_property_quoted_text_is_short_and_on_one_line(text: str) -> None:
    shown = quoted(text)

    assert len(shown) <= 90
    assert shown.isprintable()
