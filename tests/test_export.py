"""Exported models against the network they came from, restored ones, and heads of other checkpoints."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from validity_graph.errors import InputError

onnx = pytest.importorskip("onnx")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.tiny_checkpoints import save_tokenizer  # noqa: E402
from validity_graph.verifier.export import export_float, export_int4, export_int8  # noqa: E402
from validity_graph.verifier.heads import SlotHead, open_session  # noqa: E402
from validity_graph.verifier.network import EXPORTED, OUTPUTS, PairNetwork, load_encoder  # noqa: E402
from validity_graph.verifier.quantize import quantize_tables  # noqa: E402
from validity_graph.verifier.restore import UNUSED, restore  # noqa: E402


def stirred(checkpoint: Path, *, seed: int) -> PairNetwork:
    """A network in which no two arrays are equal: export keeps equal ones once."""
    torch.manual_seed(seed)
    network = PairNetwork(load_encoder(checkpoint, attn_implementation="eager"))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    return network


def write_manifest(folder: Path) -> None:
    manifest = {"model": "model.onnx", "outputs": list(EXPORTED), "rendering": "short", "max_length": 32}
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("export", "tolerance"), [(export_float, 1e-6), (export_int8, 0.02), (export_int4, 0.25)]
)
def test_restoring_gives_the_numbers_back(
    checkpoint: Path, tmp_path: Path, export: Any, tolerance: float
) -> None:
    network, other = stirred(checkpoint, seed=5), stirred(checkpoint, seed=6)
    export(network, tmp_path / "model.onnx")
    write_manifest(tmp_path)
    restore(other, tmp_path)
    found = dict(other.named_parameters())
    for name, wanted in network.named_parameters():
        if name.startswith(UNUSED):
            continue
        assert (found[name] - wanted).abs().max() <= tolerance * wanted.abs().max(), name


def test_restoring_another_architecture_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    network = stirred(checkpoint, seed=5)
    export_float(network, tmp_path / "model.onnx")
    write_manifest(tmp_path)
    network.hidden = torch.nn.Linear(7, 256)
    with pytest.raises(InputError, match=r"hidden.weight has shape .* --base"):
        restore(network, tmp_path)
    network.extra = torch.nn.Linear(2, 2)
    with pytest.raises(InputError, match=r"lacks extra.bias"):
        restore(network, tmp_path)


def test_int8_export_keeps_the_logits_and_drops_training_heads(checkpoint: Path, tmp_path: Path) -> None:
    torch.manual_seed(3)
    network = PairNetwork(load_encoder(checkpoint, attn_implementation="eager")).eval()
    export_float(network, tmp_path / "float.onnx")
    export_int8(network, tmp_path / "int8.onnx")
    ids = torch.randint(4, 20, (1, 23))
    sides = (torch.arange(23) > 11).long()[None]
    with torch.inference_mode():
        logits = network(ids, torch.ones_like(ids), sides)[:, : len(EXPORTED)].numpy()
    export_float(network, tmp_path / "chosen.onnx", outputs=("rests_on", "overturn"))
    chosen = network(ids, torch.ones_like(ids), sides)[:, [OUTPUTS.index("rests_on"), 0]].detach().numpy()
    # The second half of each feed-forward block contracts, and nothing else: it takes a range per token.
    kinds = [node.op_type for node in onnx.load(tmp_path / "int8.onnx").graph.node]
    assert kinds.count("ReduceMax") == 2 and kinds.count("MatMulInteger") == 12
    for name, wanted, tolerance in (
        ("float.onnx", logits, 1e-4), ("int8.onnx", logits, 0.1), ("chosen.onnx", chosen, 1e-4)
    ):  # fmt: skip
        session = open_session(tmp_path / name)
        given = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": sides}
        found = session.run(None, {one.name: given[one.name].numpy() for one in session.get_inputs()})[0]
        assert found.shape == wanted.shape
        assert np.abs(found - wanted).max() < tolerance


def test_embedding_rows_are_rounded_to_a_127th_of_their_largest_entry(tmp_path: Path) -> None:
    rows = np.random.default_rng(2).normal(size=(300, 8)).astype(np.float32)
    rows[7] = 0.0
    rows[9] *= 1000.0  # a large row must not coarsen the others
    index = onnx.helper.make_tensor_value_info("index", onnx.TensorProto.INT64, ["n"])
    found = onnx.helper.make_tensor_value_info("found", onnx.TensorProto.FLOAT, ["n", 8])
    node = onnx.helper.make_node("Gather", ["table", "index"], ["found"])
    graph = onnx.helper.make_graph(
        [node], "g", [index], [found], [onnx.numpy_helper.from_array(rows, "table")]
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    quantize_tables(model)
    onnx.save(model, str(tmp_path / "table.onnx"))
    read = open_session(tmp_path / "table.onnx").run(None, {"index": np.arange(300)})[0]
    assert np.all(np.abs(read - rows).max(axis=1) <= np.abs(rows).max(axis=1) / 254 * 1.001)
    assert not [table for table in model.graph.initializer if table.name == "table"]


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_slot_head_reads_any_classification_checkpoint(
    checkpoint: Path, tmp_path: Path, classes: int
) -> None:
    torch.manual_seed(5)
    shape = transformers.AutoConfig.from_pretrained(checkpoint)
    shape.num_labels = classes
    if classes == 3:
        shape.id2label = {0: "contradiction", 1: "entailment", 2: "neutral"}
    model = transformers.AutoModelForSequenceClassification.from_config(shape).eval()
    model.save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    head = SlotHead.from_checkpoint(tmp_path, form="short")
    sources, targets = ["i left acme", "we moved"], ["i work at acme", "the dog"]
    found = head.slot(sources, targets)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for source, target, probability in zip(sources, targets, found, strict=True):
        with torch.inference_mode():
            given = tokenizer(source, target, return_tensors="pt", return_token_type_ids=True)
            if getattr(shape, "type_vocab_size", 0) < 2:
                given.pop("token_type_ids", None)
            logits = model(**given).logits[0]
        wanted = (
            torch.sigmoid(logits[0]) if classes == 1 else torch.softmax(logits, 0)[0 if classes == 3 else -1]
        )
        assert probability == pytest.approx(float(wanted), abs=1e-5)


def test_slot_head_reads_an_onnx_file_and_windows_long_texts(checkpoint: Path, tmp_path: Path) -> None:
    torch.manual_seed(6)
    export_float(PairNetwork(load_encoder(checkpoint, attn_implementation="eager")), tmp_path / "model.onnx")
    head = SlotHead.from_onnx(tmp_path / "model.onnx", tokenizer=checkpoint, positive=0, form="short")
    short = replace(head, max_length=16)
    text = "i live in rome. we moved to oslo now. the cat left. no dog at acme."
    found = short.slot([text], ["i work"])
    parts = [short.slot([one], ["i work"])[0] for one in text.split(". ")]
    assert 0 <= found[0] <= 1 and len(parts) == 4
    assert head.slot([], []).shape == (0,)
    with pytest.raises(InputError, match="not a file"):
        SlotHead.from_onnx(tmp_path / "absent.onnx")
