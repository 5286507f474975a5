"""The difference between two arrays, element by element, for every element type of ONNX."""

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def difference(ours: Array, theirs: Array) -> Array:
    """Return the absolute difference, element by element, as float64; of complex numbers, their distance.

    NaN equals NaN and infinity equals itself; their difference from anything else is infinite. The two zeros
    are equal.

    Example:
        >>> difference(np.array([1, np.nan, np.nan]), np.array([3, np.nan, 0]))
        array([ 2.,  0., inf])
        >>> difference(np.array([1 + 1j]), np.array([1 - 1j]))
        array([2.])
    """
    if "c" in (ours.dtype.kind, theirs.dtype.kind):
        return np.hypot(difference(ours.real, theirs.real), difference(ours.imag, theirs.imag))
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    equal = (ours == theirs) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore", over="ignore"):
        absolute = np.abs(a - b)
    if ours.dtype.kind in "iu" and theirs.dtype.kind in "iu":
        absolute = np.maximum(absolute, 1)  # float64 cannot tell neighbouring large integers apart
    return np.where(equal, 0.0, np.where(np.isnan(absolute), np.inf, absolute))


def magnitude(array: Array) -> Array:
    """Return the absolute values as float64: of the smallest integer of a type, and of complex numbers, too.

    Example:
        >>> magnitude(np.array([-128], np.int8)), magnitude(np.array([3 + 4j]))
        (array([128.]), array([5.]))
    """
    return np.abs(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64))


def largest_difference(ours: Array, theirs: Array) -> float:
    """Return the largest absolute difference of two arrays of one shape; 0 for empty ones.

    Example:
        >>> largest_difference(np.array([True, False]), np.array([True, True]))
        1.0
    """
    return float(difference(ours, theirs).max(initial=0.0))
