"""Where arrays lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.fused import zeros
from rlstack.fused.memory_layout import ArrayLayout, overlap, reader, view


def memory(array: Any, dtype: str = "float32") -> Any:
    return reader(dtype)(array)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 64, 4096, 5000])
def test_rows_begin_at_cache_lines_that_differ(count: int, dtype: str) -> None:
    x = zeros(18, count, dtype=dtype)
    assert x.shape == (18, count) and x.dtype == dtype and not x.any()
    lines = [(row.__array_interface__["data"][0] // 64) for row in x] if count else [0]
    assert count == 0 or all(row.__array_interface__["data"][0] % 64 == 0 for row in x)
    assert count == 0 or len({line % 64 for line in lines}) == 18, (
        "rows compete for the same lines of a 4 KiB cache way"
    )


dtypes = st.sampled_from(["float32", "float64"])
slices = st.builds(slice, st.integers(0, 5), st.integers(0, 6), st.just(1))


@settings(deadline=None)
@given(dtypes, *[st.tuples(st.slices(6), slices)] * 2)
def test_overlap_is_numpys(dtype: str, a: tuple[slice, slice], b: tuple[slice, slice]) -> None:
    whole = np.zeros((6, 6), dtype)
    first, second = whole[a], whole[b]
    wanted = np.shares_memory(first, second)
    layouts = [ArrayLayout(*memory(x, dtype)) for x in (first, second)]
    if first.strides[0] == second.strides[0] > 0:
        assert overlap(*layouts) == overlap(*reversed(layouts)) == wanted or (
            # of rows that skip each other nothing is known
            not wanted and first.strides[0] != whole.strides[0]
        )
    else:
        assert overlap(*layouts) or not wanted


@given(dtypes, st.slices(6), slices)
def test_a_view_is_the_array(dtype: str, rows: slice, columns: slice) -> None:
    whole = np.arange(36, dtype=dtype).reshape(6, 6)
    part = whole[rows, columns]
    seen = view(ArrayLayout(*memory(part, dtype)))
    np.testing.assert_array_equal(seen, part)
    assert seen.dtype == part.dtype


def test_arrays_of_different_numbers_overlap_wherever_they_meet() -> None:
    single = np.zeros((2, 8), np.float32)
    double = single.view(np.float64)
    layouts = [ArrayLayout(*memory(single)), ArrayLayout(*memory(double, "float64"))]
    assert overlap(*layouts) and overlap(*reversed(layouts))
    apart = [ArrayLayout(*memory(single[:1])), ArrayLayout(*memory(double[1:], "float64"))]
    assert not overlap(*apart) and not overlap(*reversed(apart))


def test_arrays_of_each_kind_are_read() -> None:
    torch = pytest.importorskip("torch")
    x = zeros(3, 20)
    place = memory(x)
    assert place[1:] == (48, 3, 20, "cpu", 4)
    assert memory(torch.from_numpy(x)) == place
    assert memory(torch.nn.Parameter(torch.zeros(3, 20)))[1:] == (20, 3, 20, "cpu", 4)
    frozen = x.view()
    frozen.flags.writeable = False
    assert memory(frozen) == place
    assert memory(np.broadcast_to(np.float32(1), (3, 1)))[2:4] == (3, 1)


@pytest.mark.parametrize(
    ("array", "error", "message"),
    [
        (np.zeros((3, 4)), TypeError, "float64; float32 is needed"),
        (np.zeros(3, np.float32), ValueError, r"shape \(3,\)"),
        (np.zeros((4, 3), np.float32).T, ValueError, "not side by side"),
        (np.zeros((4, 8), np.float32)[:, ::2], ValueError, "not side by side"),
        ([[1.0]], TypeError, "a list; a float32 array"),
        (None, TypeError, "a NoneType"),
    ],
)
def test_what_does_not_fit_is_refused(array: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        memory(array)


def test_tensors_that_do_not_fit_are_refused() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"torch\.float64; float32"):
        memory(torch.zeros(3, 4, dtype=torch.float64))
    with pytest.raises(TypeError, match=r"torch\.int32; float32"):
        memory(torch.zeros(3, 4, dtype=torch.int32))
    with pytest.raises(ValueError, match="not side by side"):
        memory(torch.zeros(4, 3).T)
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        memory(torch.zeros(3))
