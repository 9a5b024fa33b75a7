"""Tiny random checkpoints of the two architectures of [V3], with a tokenizer that knows twenty words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

WORDS = (
    "i we you live work moved to in at left now still no longer the a cat dog oslo rome acme globex red blue"
).split()


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


def save_checkpoint(folder: Path, architecture: str) -> Path:
    torch.manual_seed(1)
    shape = config(architecture, save_tokenizer(folder))
    transformers.AutoModel.from_config(shape).save_pretrained(folder)
    return folder
