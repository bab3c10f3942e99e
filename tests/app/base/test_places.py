"""Places that many share."""

import pytest

from app.base.places import Places


def taken(places: Places, who: str) -> int:
    """Take as many places as there are for somebody; return how many these were."""
    number = 0
    while places.take(who):
        number += 1
    return number


def test_one_alone_takes_half_and_each_next_one_half_of_the_rest() -> None:
    places = Places(100)
    assert [taken(places, who) for who in "abc"] == [50, 25, 13]
    assert len(places) == 88
    assert taken(places, "a") == 0


def test_a_returned_place_is_free_for_others() -> None:
    places = Places(4)
    assert taken(places, "a") == 2
    places.leave("a")
    places.leave("a")
    assert (places.held("a"), len(places), taken(places, "b")) == (0, 0, 2)


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_few_places_have_no_more_than_there_are(most: int) -> None:
    places = Places(most)
    assert sum(taken(places, str(number)) for number in range(5)) == len(places) <= most
