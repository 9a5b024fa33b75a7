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


def test_a_product_takes_time_in_either_type() -> None:
    assert all(0 < precision.seconds(kind) < 60 for kind in (torch.bfloat16, torch.float32))
