"""The one way to write a number for people."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstore.numbers import count, number, percent, rate, seconds, size, with_interval

FLOATS = st.floats(-1e300, 1e300) | st.sampled_from([math.nan, math.inf, -math.inf])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.00001234, "0.0000123"),
        (99.96, "100"),
        (9999.7, "10,000"),
        (-3841.2, "-3,841"),
        (12345678, "12,345,678"),
        (math.nan, "not known"),
        (math.inf, "∞"),
        (np.float64(0.5), "0.5"),
    ],
)
def test_a_number_has_three_digits_and_an_int_is_exact(value, text):
    assert text == number(value)


@pytest.mark.parametrize(
    ("duration_s", "text"),
    [
        (3.84, "3.84 s"),
        (0.0384, "38.4 ms"),
        (0.000058123, "58.1 µs"),
        (0.99996, "1 s"),
        (3840.0, "3,840 s"),
        (0.0, "0 s"),
        (2e-8, "20 ns"),
        (-0.002, "-2 ms"),
        (math.nan, "not known"),
    ],
)
def test_a_duration_comes_in_the_unit_that_suits_it(duration_s, text):
    assert text == seconds(duration_s)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.083, "8.3 %"),
        (0.42, "42 %"),
        (1.0, "100 %"),
        (0.0, "0 %"),
        (0.997, "99.7 %"),
        (0.9999, "99.99 %"),
        (2.5, "250 %"),
        (math.nan, "not known"),
    ],
)
def test_a_share_is_never_0_or_100_percent_unless_it_is(share, text):
    assert text == percent(share)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (count(1, "call"), "1 call"),
        (count(2, "reply"), "2 replies"),
        (count(3690, "process"), "3,690 processes"),
        (count(2, "child", "children"), "2 children"),
        (rate(8039.4), "8,039/s"),
        (rate(math.nan), "not known"),
        (size(512), "512 B"),
        (size(999_999), "1 MB"),
        (size(1.5e12), "1,500 GB"),
        (with_interval(0.0123, 0.0121, 0.0126, seconds), "12.3 ms (12.1 ms to 12.6 ms)"),
    ],
)
def test_a_unit_a_noun_and_an_interval(text, expected):
    assert expected == text


@given(FLOATS, st.sampled_from([number, seconds, rate, percent, size]))
def test_no_number_has_an_exponent_and_thousands_are_always_separated(value, write):
    text = write(value)

    assert not re.search(r"\d[eE][+-]?\d", text)
    assert not re.search(r"(?<![.\d])\d{4}", text.split(".")[0])


@given(st.floats(1e-9, 1e9))
def test_a_written_number_is_the_number(value):
    assert math.isclose(value, float(number(value).replace(",", "")), rel_tol=0.006)
