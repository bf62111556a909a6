"""Argmax of an index with ties broken by a seeded hash of the candidate."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def tie_hash(candidate, salt):
    """64-bit hash of a candidate's number (the finaliser of SplitMix64)."""
    h = np.uint64(candidate) + np.uint64(salt)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@njit(cache=True, nogil=True)
def largest(index, allowed):
    """Largest allowed index; an empty `allowed` allows all. -inf if nothing is allowed."""
    best = -np.inf
    for i in range(index.shape[0]):
        if index[i] > best and (allowed.shape[0] == 0 or allowed[i]):
            best = index[i]
    return best


@njit(cache=True, nogil=True)
def first_of_ties(index, allowed, floor, numbers, salt):
    """Position of the candidate of smallest hash among the allowed ones with index >= floor."""
    chosen = -1
    smallest = np.uint64(0)
    for i in range(index.shape[0]):
        if index[i] >= floor and (allowed.shape[0] == 0 or allowed[i]):
            h = tie_hash(numbers[i] if numbers.shape[0] else i, salt)
            if chosen < 0 or h < smallest:
                chosen = i
                smallest = h
    return chosen
