"""Names in Python: canonical texts, names taken apart, matching, and what is said about a text that is no name."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyddsi import wire
from pyddsi.errors import InvalidNameError, PyddsiError
from pyddsi.names import Name, canonical, intersect, matches

LONGEST = "/" + "x" * 1023


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("plant/robot", "/plant/robot"),
        ("/plant/robot", "/plant/robot"),
        ("zenoh://plant/robot", "/plant/robot"),
        ("zenoh:///plant/robot", "/plant/robot"),
        ("**", "**"),
        ("**/x", "**/x"),
        ("*/x", "/*/x"),
        ("/a/****/b", "/a/**/b"),
        ("/a#transient", "/a#transient"),
        ("/a#{unreliable,transient,unreliable}", "/a#{transient,unreliable}"),
        ("/a#{persistent}", "/a#persistent"),
        ("/a?{}", "/a"),
        ("/a?{x > {3}}", "/a?{x > {3}}"),
        ("/a/b?c", "/a/b?c"),
        ("a/$ls", "/a/$ls"),
        (LONGEST, LONGEST),
        (LONGEST[1:], LONGEST),
        ("zenoh://" + LONGEST, LONGEST),
    ],
)
def test_canonical(text: str, wanted: str) -> None:
    """Two texts of one name would differ, or two names have one text."""
    assert canonical(text) == wanted
    assert canonical(wanted) == wanted
    assert Name(text) == Name(wanted)
    assert hash(Name(text)) == hash(Name(wanted))
    assert str(Name(text)) == wanted


def test_parts() -> None:
    """A name's parts would be those of the text as it was written, or be lost."""
    name = Name("plant/*/pose#{unreliable,transient}?{speed > 3}")
    assert name.path == "/plant/*/pose"
    assert name.tags == ("transient", "unreliable")
    assert name.predicate == "speed > 3"
    assert name.meta is None
    assert name.wild
    assert repr(name) == "Name('/plant/*/pose#{transient,unreliable}?{speed > 3}')"
    plain = Name("zenoh://plant/robot")
    assert (plain.path, plain.tags, plain.predicate, plain.meta, plain.wild) == (
        "/plant/robot",
        (),
        None,
        None,
        False,
    )
    assert Name("/a/$ls").meta == "ls"
    assert Name("/a/$id").meta == "id"
    assert Name("/a#persistent").tags == ("persistent",)
    assert Name("/a?{}").predicate is None
    assert Name("/a") != "/a"
    assert Name("/a") != Name("/a#transient")


@pytest.mark.parametrize(
    ("text", "rule", "at"),
    [
        ("", "NAME_EMPTY", 0),
        ("zenoh://", "NAME_EMPTY", 8),
        ("#transient", "NAME_EMPTY", 0),
        ("/", "NAME_END", 0),
        ("/a/", "NAME_END", 2),
        ("a//b", "NAME_SEGMENT", 2),
        ("/a b", "NAME_CHARACTER", 2),
        ("/ab\n", "NAME_CHARACTER", 3),
        ("/a\0b", "NAME_CHARACTER", 2),
        ("\0", "NAME_CHARACTER", 0),
        ("/ä/b", "NAME_CHARACTER", 1),
        ("/a/ö", "NAME_CHARACTER", 3),
        ("/a/😀", "NAME_CHARACTER", 3),
        ("/a/\ud800", "NAME_CHARACTER", 3),
        ("/b/\udcff", "NAME_CHARACTER", 3),
        ("http://a", "NAME_SCHEME", 0),
        ("/a/$x", "NAME_META", 3),
        ("/$ls/a", "NAME_META", 1),
        ("/a#", "NAME_TAG", 3),
        ("/a#{transient", "NAME_TAG", 4),
        ("/a#fast", "NAME_TAG", 3),
        ("/a#tränsient", "NAME_TAG", 3),
        ("/a#{transient}x", "NAME_TAG", 14),
        ("/a?{x", "NAME_PREDICATE", 5),
        ("/a?{x}y", "NAME_PREDICATE", 6),
        ("/a?{ä}", "NAME_PREDICATE", 4),
        ("/a?{ab\x7f}", "NAME_PREDICATE", 6),
        (LONGEST + "x", "NAME_LONG", 1024),
        (LONGEST[1:] + "x", "NAME_LONG", 1023),
        ("zenoh://" + LONGEST + "x", "NAME_LONG", 1032),
        ("/" + "x" * 10_000_000, "NAME_LONG", 1024),
        ("/" + "x" * 1022 + "ä", "NAME_LONG", 1023),  # its second byte is the one too many
        ("/" + "ä" * 2000, "NAME_LONG", 512),
        ("/" + "😀" * 2000, "NAME_LONG", 256),
        ("/" + "\ud800" * 2000, "NAME_LONG", 342),
    ],
    ids=lambda value: ascii(value)[:24] if isinstance(value, str) else None,
)
def test_faults(text: str, rule: str, at: int) -> None:
    """A bad name would pass, or the fault be shown at a character that is in order."""
    for call in (canonical, Name, lambda t: matches(t, "/a"), lambda t: intersect("/a", t)):
        with pytest.raises(InvalidNameError) as caught:
            call(text)
        error = caught.value
        assert (error.rule, error.at, error.text) == (rule, at, text)
        shown = repr(text) if len(text) <= 80 else repr(text[at - 9 : at])[1:-1]
        assert shown in str(error)
        assert f", character {at + 1}: " in str(error)
        assert len(str(error)) < 1000
        assert isinstance(error, PyddsiError)
        assert isinstance(error, ValueError)


@pytest.mark.parametrize("wrong", [None, 5, b"/a", ["/a"], object()])
def test_wrong_types(wrong: Any) -> None:
    """What is no text would be taken for a name, or fail with words about something else."""
    with pytest.raises(TypeError, match="a name is a text"):
        canonical(wrong)
    with pytest.raises(TypeError, match="a name is a text"):
        matches(wrong, "/a")
    with pytest.raises(TypeError, match="a name is a text"):
        Name(wrong)


@pytest.mark.parametrize(
    ("pattern", "name", "wanted"),
    [
        ("/a", "/a", True),
        ("a", "zenoh://a", True),
        ("/a", "/b", False),
        ("/a/*", "/a/b", True),
        ("/a/*", "/a/b/c", False),
        ("/a/**", "/a/b/c", True),
        ("/a/**", "/a", False),
        ("**", "/a/b", True),
        ("/a?c", "/abc", True),
        ("/a?c", "/a/c", False),
        ("/a*#transient", "/abc#persistent", True),
        ("/a/$ls", "/a/$ls", True),
        (LONGEST[:-1] + "*", LONGEST, True),
        ("/" + "*x" * 500, "/" + "x" * 1000, True),
        ("/" + "*x" * 500 + "*y", "/" + "x" * 1000, False),
    ],
)
def test_matches(pattern: str, name: str, wanted: bool) -> None:  # noqa: FBT001
    """A subscription would get data of names that it does not cover, or miss some."""
    for one in (pattern, Name(pattern)):
        for two in (name, Name(name)):
            assert matches(one, two) is wanted
            assert intersect(one, two) is wanted
            assert intersect(two, one) is wanted


def test_matches_is_about_names() -> None:
    """A pattern in the place of a name would be answered as if it were one name."""
    for wild in ("/a/*", "/a/?", "**", Name("/a/**")):
        with pytest.raises(ValueError, match=re.escape("ask intersect()")):
            matches("/a/*", wild)
    assert intersect("/a/*/c", "/a/b/*")
    assert intersect("/a/?", "/*/b")
    assert not intersect("/a/*", "/b/*")


segment = st.text("ab-_9", min_size=1, max_size=3)
paths = st.lists(segment, min_size=1, max_size=4).map("/".join)
patterns = st.lists(
    st.one_of(segment, st.sampled_from(["*", "**", "a*", "?b"])), min_size=1, max_size=4
).map("/".join)


def expression(pattern: str) -> str:
    """The pattern as a regular expression."""
    words = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(
        words.get(part) or re.escape(part) for part in re.split(r"(\*\*+|\*|\?)", pattern)
    )


@given(patterns, paths)
def test_matches_like_an_expression(pattern: str, path: str) -> None:
    """Matching would not mean what the wildcards are said to mean."""
    wanted = re.fullmatch(expression(Name(pattern).path), "/" + path) is not None
    assert matches(pattern, path) == wanted


@given(st.text(max_size=40))
def test_any_text(text: str) -> None:
    """Some text would be answered with another error, or with a canonical form that is not one."""
    try:
        found = canonical(text)
    except InvalidNameError as error:
        assert 0 <= error.at <= len(text)
        assert error.rule.startswith("NAME_")
    else:
        assert canonical(found) == found
        assert found.isascii()
        path = Name(text).path
        assert wire.decode(wire.encode([wire.WData(0, path, b"")]), wire.STRICT)
