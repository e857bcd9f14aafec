"""The one parser of shapes and sizes."""

import pytest

from suite.shapes import parse_shape, parse_sizes, point


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("64:8192:x2", (64, 128, 256, 512, 1024, 2048, 4096, 8192)),
        ("64:96:+8", (64, 72, 80, 88, 96)),
        ("100", (100,)),
        ("300,100,100", (100, 300)),
        ("8, 64:256:x2", (8, 64, 128, 256)),
        ("64:100:x2", (64,)),
        ("1:4:x1.5", (1, 2, 3, 4)),
    ],
)
def test_sizes(text, sizes):
    assert parse_sizes(text) == sizes


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("abc", "'abc' is not a whole number"),
        ("0", "0 is outside 1"),
        ("-4", "'-4' is not a whole number"),
        ("64:32:x2", "64 is above 32"),
        ("64:128", "start:stop:x2"),
        ("64:128:x1", "step x1"),
        ("64:128:x0.5", "step x0.5"),
        ("64:128:+0", "step +0"),
        ("64:128:+1.5", "step +1.5"),
        ("64:128:8", "start:stop:+8"),
        ("1,,2", "'' is not a whole number"),
        ("99999999999", "outside"),
        ("1:2000000000:+1", "larger step"),
        ("1e3", "'1e3' is not a whole number"),
    ],
)
def test_wrong_sizes_are_named(text, named):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is what is tested
        parse_sizes(text)
    assert named in str(caught.value)


@pytest.mark.parametrize(
    ("text", "at_8"),
    [
        ("square", (8, 8, 8)),
        ("M=N,K=32", (8, 8, 32)),
        ("M=N=K", (8, 8, 8)),
        ("m = 16k, n = k", (128, 8, 8)),
        ("M=2*N,K=64", (16, 8, 64)),
        ("K=32", (8, 8, 32)),
        ("M=N=32", (32, 32, 8)),
        ("M=1,N=2,K=3", (1, 2, 3)),
    ],
)
def test_shape(text, at_8):
    assert parse_shape(text).at(8) == at_8


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("circle", "'circle' is not understood"),
        ("M=Q", "'M=Q' is not understood"),
        ("M=0", "0 is outside"),
        ("M=N,M=4", "gives M twice"),
        ("", "'' is not understood"),
        ("M=", "not understood"),
    ],
)
def test_wrong_shapes_are_named(text, named):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        parse_shape(text)
    assert named in str(caught.value)


def test_point_is_the_same_at_every_size():
    assert point(3, 4, 5).at(1) == point(3, 4, 5).at(99) == (3, 4, 5)
