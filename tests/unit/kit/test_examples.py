import pytest

from kit.examples import share_of


@pytest.mark.parametrize(
    ("number", "percent", "drawn"), [(100, 100, 100), (1500, 20, 300), (15, 20, 5), (3, 20, 3), (60, 1, 5)]
)
def test_a_share_is_never_fewer_than_show_that_a_test_works(number, percent, drawn):
    assert share_of(number, percent) == drawn
