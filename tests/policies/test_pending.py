"""Pending points, against a list that is kept by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalable_bandits.policies.pending import PendingPoints, PointNotPending

NUMBERS = st.lists(st.integers(0, 4), max_size=8)


@given(asked=NUMBERS, settled=NUMBERS)
def test_a_number_is_pending_as_often_as_it_was_asked_for(asked, settled):
    pending, expected = PendingPoints(), []
    for number in asked:
        pending.add(number)
        expected.append(number)
    for number in settled:
        pending = pending.settled(number)
        if number in expected:
            expected.remove(number)
    assert pending.numbers == expected
    assert len(pending) == len(expected)


@given(numbers=NUMBERS)
def test_reissued_once_in_the_order_of_asking(numbers):
    pending = PendingPoints()
    pending.replace(numbers, reissue=True)
    assert [pending.next_reissue(None) for _ in numbers] == numbers
    assert pending.next_reissue(None) is None
    assert pending.numbers == numbers, "they are pending all the time"
    pending.replace(numbers, reissue=False)
    assert pending.next_reissue(None) is None


def test_only_allowed_numbers_are_reissued():
    pending = PendingPoints()
    pending.replace([0, 1], reissue=True)
    assert pending.next_reissue([False, True]) == 1
    assert pending.next_reissue([False, True]) is None
    assert pending.next_reissue(None) == 0


@given(numbers=NUMBERS, settled=NUMBERS)
def test_what_is_settled_is_not_reissued(numbers, settled):
    """Of a number that is pending twice, one is left."""
    pending = PendingPoints()
    pending.replace(numbers, reissue=True)
    for number in settled:
        pending = pending.settled(number)
    left = sorted(pending.numbers)
    assert sorted(iter(lambda: pending.next_reissue(None), None)) == left


def test_excluded_numbers_count_while_a_point_is_chosen():
    pending = PendingPoints([1])
    pending.exclude([7])
    with pending.choosing():
        assert pending.numbers == [1, 7]
    assert pending.numbers == [1]
    with pytest.raises(ZeroDivisionError), pending.choosing():
        raise ZeroDivisionError
    assert pending.numbers == [1]


def test_a_copy_stays_as_it_is():
    pending = PendingPoints([1, 2])
    copy, settled = pending.copy(), pending.settled(1)
    pending.add(3)
    settled.add(4)
    assert (copy.numbers, settled.numbers, pending.numbers) == ([1, 2], [2, 4], [1, 2, 3])


def test_without():
    pending = PendingPoints([1, 1, 2])
    assert pending.without([1, 2]) == [1]
    assert pending.numbers == [1, 1, 2]
    with pytest.raises(PointNotPending):
        pending.without([2, 2])
    pending.restrict_to([1])
    assert pending.numbers == [1]
