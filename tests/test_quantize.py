"""Integer products and 4-bit weights, against the same arithmetic in numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from validity_graph.verifier import exact_products  # noqa: E402
from validity_graph.verifier.export import export_int4  # noqa: E402
from validity_graph.verifier.heads import open_session  # noqa: E402
from validity_graph.verifier.network import EXPORTED, PairNetwork, freeze  # noqa: E402
from validity_graph.verifier.quantization_aware import begin_int4, end_int4, fake_int4  # noqa: E402
from validity_graph.verifier.quantize import BLOCK, int4, largest_products, quantize_products  # noqa: E402

Floats = NDArray[np.float32]


def product(folder: Path, weight: Floats, given: Floats, *, pack: bool) -> Floats:
    """Run one quantised product of ``given`` ``(1, rows, inputs)`` and a constant weight."""
    inputs, outputs = weight.shape
    tensor = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"], name="/network/a/MatMul")], "g",
        [tensor("x", onnx.TensorProto.FLOAT, [1, "rows", inputs])],
        [tensor("y", onnx.TensorProto.FLOAT, [1, "rows", outputs])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
    quantize_products(model, pack=pack)
    onnx.checker.check_model(model)
    onnx.save(model, str(folder / "product.onnx"))
    found: Floats = open_session(folder / "product.onnx", unpack=True).run(None, {"x": given})[0]
    return found


def stored(weight: Floats, *, pack: bool) -> Floats:
    """Return the weight as its file keeps it, by arithmetic of its own."""
    if not pack:
        return weight
    blocks = np.pad(weight.T, ((0, 0), (0, -len(weight) % BLOCK))).reshape(weight.shape[1], -1, BLOCK)
    step = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=2)[..., None], axis=2) / -8.0
    digits = np.clip(np.rint(blocks / np.where(step == 0, 1, step)), -8, 7)
    return (digits * step).reshape(weight.shape[1], -1)[:, : len(weight)].T


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("outputs", [8, 200])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_products_at_the_end_of_their_range_do_not_overflow(
    tmp_path: Path, pack: bool, outputs: int, sign: float
) -> None:
    # 255 times 127, twice, is more than 16 bits hold: what processors without VNNI add up in.
    weight = np.full((128, outputs), sign, dtype=np.float32)
    found = product(tmp_path, weight, np.ones((1, 5, 128), np.float32), pack=pack)
    assert np.allclose(found, 128 * sign, rtol=0.01)


def test_the_file_of_the_largest_products_is_what_the_quantiser_writes() -> None:
    assert exact_products.LARGEST.read_bytes() == largest_products().SerializeToString(deterministic=True)


@pytest.mark.parametrize("exact", [False, True])
def test_slow_products_are_asked_for_where_fast_ones_overflow_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, exact: bool
) -> None:
    monkeypatch.setattr(exact_products, "are_exact", lambda: exact)
    options = onnxruntime.SessionOptions()
    exact_products.require(options)
    if exact:
        with pytest.raises(RuntimeError, match="x64quantprecision"):
            options.get_session_config_entry("session.x64quantprecision")
    else:
        assert options.get_session_config_entry("session.x64quantprecision") == "1"


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32 - 1), st.integers(1, 150), st.integers(1, 90), st.booleans())
def test_a_product_errs_by_the_rounding_of_its_factors_alone(
    tmp_path: Path, seed: int, inputs: int, outputs: int, pack: bool
) -> None:
    rng = np.random.default_rng(seed)
    weight = rng.normal(size=(inputs, outputs)).astype(np.float32)
    weight[:, 0] *= 50.0
    given = rng.normal(size=(1, 5, inputs)).astype(np.float32)
    given[0, 2] *= 1000.0
    kept = stored(weight, pack=pack)
    of_weight = np.abs(kept).max(axis=0) / 127.0 * 0.51
    if inputs > outputs:
        step = np.abs(given).max(axis=2) / 127.0
    else:
        step = np.full((1, 5), (max(given.max(), 0) - min(given.min(), 0)) / 255.0)
    bound = np.abs(given).sum(axis=2)[..., None] * of_weight + inputs * 0.51 * step[..., None] * (
        np.abs(kept).max(axis=0) + of_weight
    )
    # Ratios of scales are stored in half precision.
    slack = 1e-3 * np.abs(given) @ np.abs(kept) if pack else 0.0
    assert np.all(np.abs(product(tmp_path, weight, given, pack=pack) - given @ kept) <= bound + slack + 1e-4)


def test_a_token_with_large_values_does_not_coarsen_the_others(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    weight = rng.normal(size=(256, 64)).astype(np.float32)
    given = rng.normal(size=(1, 6, 256)).astype(np.float32)
    quiet = product(tmp_path, weight, given, pack=False)[0, :5]
    given[0, 5] *= 1e5
    assert np.array_equal(product(tmp_path, weight, given, pack=False)[0, :5], quiet)


@given(st.integers(0, 2**32 - 1), st.integers(1, 200), st.integers(1, 12))
def test_four_bits_of_storage_are_those_of_training(seed: int, inputs: int, outputs: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(outputs, inputs)).astype(np.float32)
    rows[0, : inputs // 2] = 0.0
    digits, ratio, scale = int4(rows)
    assert digits.shape == rows.shape and digits.min() >= -8 and digits.max() <= 7
    kept = digits * np.repeat(ratio * scale[:, None], BLOCK, axis=1)[:, :inputs]
    assert np.allclose(kept, fake_int4(torch.from_numpy(rows)).numpy(), atol=1e-5)
    assert np.allclose(kept, stored(rows.T, pack=True).T, atol=1e-5)
    again = fake_int4(torch.from_numpy(kept)).numpy()
    assert np.allclose(again, kept, atol=1e-5)


def test_gradients_pass_straight_through_the_rounding() -> None:
    weight = torch.randn(3, 100, requires_grad=True)
    factor = torch.randn(3, 100)
    (fake_int4(weight) * factor).sum().backward()
    assert torch.equal(weight.grad, factor)


@pytest.fixture
def network() -> Any:
    torch.manual_seed(4)
    shape = transformers.BertConfig(
        vocab_size=150, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128
    )
    return PairNetwork(transformers.BertModel(shape, add_pooling_layer=False))


def test_what_was_trained_with_four_bits_ships_with_the_same_logits(network: Any, tmp_path: Path) -> None:
    ids = torch.randint(4, 150, (1, 31))
    sides = (torch.arange(31) > 15).long()[None]
    begin_int4(network)
    network.eval()
    with torch.inference_mode():
        wanted = network(ids, torch.ones_like(ids), sides)[:, : len(EXPORTED)].numpy()
    end_int4(network)
    with torch.inference_mode():
        ended = network(ids, torch.ones_like(ids), sides)[:, : len(EXPORTED)].numpy()
    assert np.allclose(ended, wanted, atol=1e-5)
    export_int4(network, tmp_path / "model.onnx")
    session = open_session(tmp_path / "model.onnx", unpack=True)
    feed = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": sides}
    found = session.run(None, {one.name: feed[one.name].numpy() for one in session.get_inputs()})[0]
    assert np.abs(found - wanted).max() < 0.05


def test_frozen_weights_are_rounded_once_and_others_keep_learning(network: Any) -> None:
    freeze(network, layers=1)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    begin_int4(network)
    state = {
        name.replace("parametrizations.weight.original", "weight"): value
        for name, value in network.state_dict().items()
    }
    still = "encoder.encoder.layer.0.output.dense.weight"
    free = "encoder.encoder.layer.1.output.dense.weight"
    assert torch.equal(state[still], fake_int4(before[still])) and not torch.equal(
        state[still], before[still]
    )
    assert torch.equal(state[free], before[free])
    end_int4(network)
    assert torch.equal(network.state_dict()[free], fake_int4(before[free]))
