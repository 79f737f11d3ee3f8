import pytest

from ckptd.core.text.nesting import is_nested_deeper


def nest(depth, wrap):
    document = 1
    for _ in range(depth):
        document = wrap(document)
    return document


@pytest.mark.parametrize("wrap", [lambda each: {"a": each}, lambda each: [0, each], lambda each: ("a", each)])
def test_a_document_is_measured_at_its_deepest_place_without_recursion(wrap):
    for depth in (0, 1, 19, 20, 21, 500, 100_000):
        assert is_nested_deeper(nest(depth, wrap), 20) == (depth > 20), depth


@pytest.mark.parametrize("plain", [None, 1, "[[[[", {}, [], [{}, []], {"a": [1, 2], "b": {"c": 3}}])
def test_what_is_wide_is_not_deep(plain):
    assert not is_nested_deeper(plain, 2)
