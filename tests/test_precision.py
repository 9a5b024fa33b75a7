"""The number type of training follows what the processor is fast at."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from validity_graph.verifier import precision  # noqa: E402


@pytest.mark.parametrize(("bfloat16", "expected"), [(1.0, torch.float32), (0.1, torch.bfloat16)])
def test_products_are_computed_in_the_faster_type(
    monkeypatch: pytest.MonkeyPatch, bfloat16: float, expected: torch.dtype
) -> None:
    monkeypatch.setattr(precision, "seconds", {torch.bfloat16: bfloat16, torch.float32: 0.5}.__getitem__)
    precision.faster_in_bfloat16.cache_clear()
    try:
        with precision.mixed_precision():
            assert torch.mm(torch.ones((2, 2)), torch.ones((2, 2))).dtype == expected
    finally:
        precision.faster_in_bfloat16.cache_clear()


def test_the_time_of_a_product_is_its_best(monkeypatch: pytest.MonkeyPatch) -> None:
    # A clock that makes four products take 5, 2, 7 and 3 seconds.
    clock = iter([0.0, 5.0, 10.0, 12.0, 20.0, 27.0, 30.0, 33.0])
    monkeypatch.setattr(precision.time, "perf_counter", lambda: next(clock))
    kinds = []
    monkeypatch.setattr(precision.torch, "mm", lambda a, b: kinds.extend([a.dtype, b.dtype]))
    assert precision.seconds(torch.bfloat16) == 2.0
    assert kinds == [torch.bfloat16] * 8
