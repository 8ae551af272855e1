import pytest

from angpn.utils.printing import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("naïve 日本語 ۩ 👩‍🔬 a b", "naïve 日本語 ۩ 👩‍🔬 a b"),
        (b"caf\xe9.png".decode("utf-8", "surrogateescape"), r"caf\xe9.png"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("one\ntwo\r\tthree", r"one\ntwo\r\tthree"),
        ("\x9b31m\x7f", r"\x9b31m\x7f"),
        ("gpj.\u202etxt.exe", r"gpj.\u202etxt.exe"),
        ("a\u2028b", r"a\u2028b"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_as_escapes(text, shown):
    assert printable(text) == shown
    printable(text).encode("utf-8", "strict")
