"""Training and its checkpoints, on tiny random models of the two architectures of [V3]."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.toy_pairs import row, write
from validity_graph.errors import InputError
from validity_graph.verifier.pairs import Pair

onnx = pytest.importorskip("onnx")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from validity_graph.verifier import export, fitting  # noqa: E402
from validity_graph.verifier import train as training  # noqa: E402
from validity_graph.verifier.heads import read_manifest  # noqa: E402
from validity_graph.verifier.network import OUTPUTS, PairNetwork, load_encoder  # noqa: E402
from validity_graph.verifier.quantization_aware import fake_int4  # noqa: E402
from validity_graph.verifier.restore import restore  # noqa: E402
from validity_graph.verifier.router import Route  # noqa: E402
from validity_graph.verifier.scoring import Verifier  # noqa: E402


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
    real = fitting.one_step

    def broken(*args: Any, **options: Any) -> float:
        nonlocal steps
        steps += 1
        if steps == 11:
            raise KeyboardInterrupt
        return real(*args, **options)

    monkeypatch.setattr(fitting, "one_step", broken)
    with pytest.raises(KeyboardInterrupt):
        _fitted(checkpoint, pairs_file, tmp_path / "halves", chosen)
    monkeypatch.setattr(fitting, "one_step", real)
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
    monkeypatch.setattr(fitting, "balanced_accuracy", lambda *_: 0.5)
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
    loss = fitting.loss_of(network(*fitting.collate(data, index)).float(), data, index)
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
        both = network(*fitting.collate(data, np.arange(2)))
        alone = [network(*fitting.collate(data, np.array([i]))) for i in range(2)]
    assert torch.allclose(both, torch.cat(alone), atol=1e-5)


def test_a_second_head_is_read_where_it_can_and_calibrated_with_the_first(
    checkpoint: Path, pairs_file: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="manifest.json"):
        training.train_second(pairs_file, output=tmp_path, base=checkpoint, settings=SMALL)
    training.train(pairs_file, output=tmp_path, base=checkpoint, seed=11, settings=SMALL)
    with pytest.raises(InputError, match="no second head reads 'latin'"):
        training.train_second(pairs_file, output=tmp_path, base=checkpoint, reads=["latin"], settings=SMALL)
    for name in ("", "..", "a/b", "run", "my head"):
        with pytest.raises(InputError, match="letters, digits"):
            training.train_second(pairs_file, output=tmp_path, base=checkpoint, name=name, settings=SMALL)
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


def test_a_second_head_is_calibrated_on_the_pairs_that_the_cheap_one_leaves_open(
    checkpoint: Path, pairs_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Stopped early, so that it leaves some pairs open.
    training.train(pairs_file, output=tmp_path, base=checkpoint, settings=replace(SMALL, epochs=3))
    pairs = [Pair(f"i {a} in {b}", f"i live in {c}") for a in ("no longer live", "still live", "work")
             for b in ("oslo", "rome", "acme") for c in ("oslo", "rome")]  # fmt: skip
    scores = Verifier.load(tmp_path, threads=1).score([p.source for p in pairs], [p.target for p in pairs])
    least = np.minimum(np.minimum(scores.slot_mini, scores.event), scores.operation)
    # The router's default thresholds, written out.
    open_ones = (scores.gate >= 0.125) & ~((scores.gate >= 0.985) & (least >= 0.99))
    assert 0 < open_ones.sum() < len(pairs)
    wanted = [pair for pair, left in zip(pairs, open_ones, strict=True) if left]
    monkeypatch.setattr(export, "FEWEST_ASKED", len(wanted))
    assert export.unsettled(tmp_path, pairs, threads=1) == wanted
    monkeypatch.setattr(export, "FEWEST_ASKED", len(wanted) + 1)
    assert export.unsettled(tmp_path, pairs, threads=1) == pairs


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


def test_base_package_is_named_when_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "BASE_PACKAGE", "no_such_package_here")
    with pytest.raises(ImportError, match="no-such-package-here"):
        training.base_folder()
