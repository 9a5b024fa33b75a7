"""Training, export and checkpoints, on tiny random models of the two architectures of [V3]."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.toy_pairs import row, write  # noqa: E402
from validity_graph.errors import InputError
from validity_graph.verifier.pairs import (
    Pair,
)

onnx = pytest.importorskip("onnx")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors  # noqa: E402

from validity_graph.verifier import train as training  # noqa: E402
from validity_graph.verifier.export import export_float, export_int4, export_int8  # noqa: E402
from validity_graph.verifier.heads import SlotHead, open_session, read_manifest  # noqa: E402
from validity_graph.verifier.network import EXPORTED, OUTPUTS, PairNetwork, load_encoder  # noqa: E402
from validity_graph.verifier.quantization_aware import fake_int4  # noqa: E402
from validity_graph.verifier.quantize import quantize_tables  # noqa: E402
from validity_graph.verifier.restore import UNUSED, restore  # noqa: E402
from validity_graph.verifier.router import Route  # noqa: E402
from validity_graph.verifier.scoring import Verifier  # noqa: E402

WORDS = (
    "i we you live work moved to in at left now still no longer the a cat dog oslo rome acme globex red blue"
).split()
ARCHITECTURES = ["bert", "deberta-v2"]


def config(architecture: str, size: int) -> Any:
    shape = {
        "vocab_size": size, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 48, "max_position_embeddings": 64, "pad_token_id": 0,
    }  # fmt: skip
    if architecture == "bert":
        return transformers.BertConfig(**shape)
    # The attention of DeBERTa-v3: relative positions in buckets, shared projections, no token types.
    return transformers.DebertaV2Config(
        **shape, relative_attention=True, position_buckets=16, norm_rel_ebd="layer_norm",
        share_att_key=True, pos_att_type=["p2c", "c2p"], position_biased_input=False, type_vocab_size=0,
    )  # fmt: skip


def save_tokenizer(folder: Path) -> int:
    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(folder)
    return len(vocabulary)


@pytest.fixture(scope="module", params=ARCHITECTURES)
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    torch.manual_seed(1)
    shape = config(request.param, save_tokenizer(folder))
    transformers.AutoModel.from_config(shape).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def pairs_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("pairs") / "pairs.jsonl", [row(i) for i in range(160)])


SMALL = training.Settings(
    epochs=6, batch_size=16, max_length=32, learning_rate=3e-3, validation_fraction=0.2, evaluate_every=10,
    patience=50, threads=1,
)  # fmt: skip


# -- training --------------------------------------------------------------------------------------------


def test_training_learns_exports_and_loads(checkpoint: Path, pairs_file: Path, tmp_path: Path) -> None:
    manifest = training.train(pairs_file, output=tmp_path, base=checkpoint, seed=11, settings=SMALL)
    assert manifest == json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["seed"] == 11 and manifest["data"][0]["file"] == "pairs.jsonl"
    assert len(manifest["data"][0]["sha256"]) == 64 and manifest["versions"]["torch"] == torch.__version__
    assert manifest["metrics"]["gate_accuracy"] >= 0.95
    scores = Verifier.load(tmp_path, threads=1).score(
        ["i no longer live in rome", "i still live in rome"], ["i live in rome"] * 2
    )
    assert scores.slot_mini[0] > 0.5 > scores.slot_mini[1]
    assert list(scores.kind) == ["supersedes", "confirms"]
    assert scores.confirms[1] > scores.confirms[0]


def test_an_interrupted_run_ends_where_an_unbroken_one_does(
    checkpoint: Path, pairs_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = replace(SMALL, epochs=2, evaluate_every=100, checkpoint_seconds=0.0, dropout=0.1)
    whole = _fitted(checkpoint, pairs_file, tmp_path / "whole", chosen)

    steps = 0
    real = training.one_step

    def broken(*args: Any, **options: Any) -> float:
        nonlocal steps
        steps += 1
        if steps == 11:
            raise KeyboardInterrupt
        return real(*args, **options)

    monkeypatch.setattr(training, "one_step", broken)
    with pytest.raises(KeyboardInterrupt):
        _fitted(checkpoint, pairs_file, tmp_path / "halves", chosen)
    monkeypatch.setattr(training, "one_step", real)
    halves = _fitted(checkpoint, pairs_file, tmp_path / "halves", chosen)
    assert all(torch.equal(whole[name], halves[name]) for name in whole)


def _fitted(checkpoint: Path, pairs_file: Path, folder: Path, chosen: training.Settings) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    torch.manual_seed(chosen.seed)
    tokenizer = training.load_tokenizer(checkpoint)
    learned, judged = training.split(pairs_file, None, settings=chosen)
    network = PairNetwork(load_encoder(checkpoint, attn_implementation="eager"))
    training.set_dropout(network, chosen.dropout)
    training.fit(
        network,
        training.encode(learned, tokenizer=tokenizer, settings=chosen),
        validation=training.encode(judged, tokenizer=tokenizer, settings=chosen),
        settings=chosen,
        folder=folder,
    )
    return dict(network.state_dict())


def test_a_checkpoint_of_other_settings_is_refused(
    checkpoint: Path, pairs_file: Path, tmp_path: Path
) -> None:
    chosen = replace(SMALL, epochs=1)
    _fitted(checkpoint, pairs_file, tmp_path, chosen)
    with pytest.raises(InputError, match="other settings"):
        _fitted(checkpoint, pairs_file, tmp_path, replace(chosen, learning_rate=1e-5))


def test_training_stops_when_nothing_improves(
    checkpoint: Path, pairs_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "balanced_accuracy", lambda *_: 0.5)
    chosen = replace(SMALL, epochs=50, evaluate_every=1, patience=2)
    _fitted(checkpoint, pairs_file, tmp_path, chosen)
    progress = torch.load(tmp_path / "checkpoint.pt", weights_only=True)["progress"]
    assert progress["step"] == 4 and progress["best"] == 0.5


def test_too_few_groups_to_hold_out_is_named(checkpoint: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "one.jsonl", [row(0)])
    with pytest.raises(InputError, match="too few groups"):
        training.train(path, output=tmp_path / "out", base=checkpoint, settings=SMALL)
    with pytest.raises(InputError, match=r"tokenizer\.json"):
        training.train(path, output=tmp_path / "out", base=tmp_path, settings=SMALL)


def test_unknown_labels_train_nothing(checkpoint: Path) -> None:
    network = PairNetwork(load_encoder(checkpoint, attn_implementation="eager"))
    tokenizer = training.load_tokenizer(checkpoint)
    pairs = [Pair("i left", "i live", contradiction=1), Pair("we moved", "we live", contradiction=0)]
    data = training.encode(pairs, tokenizer=tokenizer, settings=SMALL)
    index = np.arange(2)
    loss = training.loss_of(network(*training.collate(data, index)).float(), data, index)
    loss.backward()
    gradient = network.output.weight.grad.abs().sum(dim=1)
    trained = {name for name, size in zip(OUTPUTS, gradient.tolist(), strict=True) if size > 0}
    assert trained == {"contradiction"}


def test_sides_and_padding_do_not_leak_into_a_pair(checkpoint: Path) -> None:
    network = PairNetwork(load_encoder(checkpoint, attn_implementation="eager")).eval()
    tokenizer = training.load_tokenizer(checkpoint)
    pairs = [
        Pair("i left", "i live in rome", overturn=1),
        Pair("we moved to oslo now", "the cat", overturn=0),
    ]
    data = training.encode(pairs, tokenizer=tokenizer, settings=SMALL)
    assert data.types[0].tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1]
    with torch.inference_mode():
        both = network(*training.collate(data, np.arange(2)))
        alone = [network(*training.collate(data, np.array([i]))) for i in range(2)]
    assert torch.allclose(both, torch.cat(alone), atol=1e-5)


def test_a_second_head_is_read_where_it_can_and_calibrated_with_the_first(
    checkpoint: Path, pairs_file: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="manifest.json"):
        training.train_second(pairs_file, output=tmp_path, base=checkpoint, settings=SMALL)
    training.train(pairs_file, output=tmp_path, base=checkpoint, seed=11, settings=SMALL)
    with pytest.raises(InputError, match="no second head reads 'latin'"):
        training.train_second(pairs_file, output=tmp_path, base=checkpoint, reads=["latin"], settings=SMALL)
    manifest = training.train_second(pairs_file, output=tmp_path, base=checkpoint, seed=7, settings=SMALL)
    assert manifest["calibration"]["outputs"][:2] == ["slot_mini", "slot_nli"]
    verifier = Verifier.load(tmp_path, threads=1).asking_always()
    sources, targets = (
        ["i no longer live in rome", "i still live in rome", "я больше не живу в риме"],
        ["i live in rome"] * 3,
    )
    scores = verifier.score(sources, targets)
    assert np.isnan(scores.slot_nli).tolist() == [False, False, True]
    assert scores.gate[0] > 0.5 > scores.gate[1]
    both = slice(0, 2)
    product = scores.slot_mini * scores.slot_nli * np.minimum(scores.event, scores.operation)
    assert np.allclose(scores.gate[both], product[both])
    alone = verifier.asking_never().score(sources, targets)
    assert np.isnan(alone.slot_nli).all() and alone.gate[2] == scores.gate[2]


def test_each_pair_is_read_by_the_second_head_of_its_kind_of_text(
    checkpoint: Path, pairs_file: Path, tmp_path: Path
) -> None:
    training.train(pairs_file, output=tmp_path, base=checkpoint, seed=11, settings=SMALL)
    for name, reads, seed in (("english", ["english"], 7), ("other", ["other_latin", "english"], 8)):
        training.train_second(
            pairs_file, output=tmp_path, base=checkpoint, name=name, reads=reads, seed=seed, settings=SMALL
        )
    verifier = Verifier.load(tmp_path, threads=1).asking_always()
    assert [head.folder.name for head in verifier.packaged] == ["english", "other"]
    sources = ["i no longer live in rome", "das ist nicht mehr so", "我不住在罗马了"]
    targets = ["i live in rome", "ich wohne in rom", "我住在罗马"]
    scores = verifier.score(sources, targets)
    assert np.isnan(scores.slot_nli).tolist() == [False, False, True]
    for i, head in enumerate(verifier.packaged):
        only = replace(verifier, packaged=(head,)).score([sources[i]], [targets[i]])
        assert only.gate[0] == scores.gate[i] and only.kind[0] == scores.kind[i]
    assert scores.routing.count[Route.UNREADABLE] == 1
    # A head whose writing was broken off before it was calibrated is written anew.
    cut = {k: v for k, v in read_manifest(tmp_path / "other").items() if k != "calibration"}
    (tmp_path / "other" / "manifest.json").write_text(json.dumps(cut))
    training.train_second(
        pairs_file, output=tmp_path, base=checkpoint, name="other", reads=["english"], seed=8, settings=SMALL
    )
    assert [head.folder.name for head in Verifier.load(tmp_path).packaged] == ["english", "other"]


def test_a_compact_head_ships_the_4_bit_embeddings_that_it_learned_with(
    checkpoint: Path, pairs_file: Path, tmp_path: Path
) -> None:
    compact = replace(SMALL, compact=True)
    manifest = training.train(pairs_file, output=tmp_path, base=checkpoint, seed=11, settings=compact)
    assert manifest["settings"]["compact"]
    graph = onnx.load(tmp_path / manifest["model"]).graph
    kinds = [node.op_type for node in graph.node]
    assert "GatherBlockQuantized" in kinds and kinds.count("MatMulInteger") == 12
    network = PairNetwork(load_encoder(checkpoint, attn_implementation="eager"))
    restore(network, tmp_path)
    # Rounding to 4 bits leaves alone what 4 bits can say.
    words = network.encoder.get_input_embeddings().weight
    assert torch.allclose(fake_int4(words), words, rtol=1e-5, atol=1e-7)


def test_frozen_layers_stay_as_they_were(checkpoint: Path, pairs_file: Path, tmp_path: Path) -> None:
    settings = replace(SMALL, frozen_layers=1, epochs=1)
    found = training.fitted(
        pairs_file, folder=tmp_path, base=checkpoint, validation_path=None, settings=settings, start=None
    )
    before = dict(load_encoder(checkpoint).named_parameters())
    moved = {name for name, p in found.network.encoder.named_parameters() if not torch.equal(p, before[name])}
    assert moved and not any("embeddings" in name or "layer.0." in name for name in moved)


def test_training_goes_on_from_what_ships(checkpoint: Path, pairs_file: Path, tmp_path: Path) -> None:
    training.train(pairs_file, output=tmp_path / "first", base=checkpoint, settings=SMALL)
    first = Verifier.load(tmp_path / "first", threads=1)
    still = replace(SMALL, epochs=0.1, learning_rate=1e-9)
    manifest = training.train(
        pairs_file, output=tmp_path / "more", base=checkpoint, settings=still, start=tmp_path / "first"
    )
    assert manifest["start"] == "first"
    assert manifest["metrics"]["gate_accuracy"] >= 0.95
    sources, targets = ["i no longer live in rome", "i still live in rome"], ["i live in rome"] * 2
    more = Verifier.load(tmp_path / "more", threads=1)
    assert np.allclose(more.score(sources, targets).gate, first.score(sources, targets).gate, atol=0.1)


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


# -- export and other heads ------------------------------------------------------------------------------


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


def test_base_package_is_named_when_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "BASE_PACKAGE", "no_such_package_here")
    with pytest.raises(ImportError, match="no-such-package-here"):
        training.base_folder()
