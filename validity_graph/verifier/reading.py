"""From texts to token arrays: renders pairs, cuts long ones into windows, remembers each one's pair.

Uses only the ``tokenizers`` package.  The token layout is that of training: the second side starts at the
first token of the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from validity_graph.errors import InputError
from validity_graph.verifier import rendering
from validity_graph.verifier.windows import window_pairs

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer


@dataclass(frozen=True, slots=True)
class Window:
    """One input of a model: token ids, their side (0 source, 1 target), and the index of its pair."""

    ids: NDArray[np.int64]
    sides: NDArray[np.int64]
    pair: int


def load_tokenizer(folder: str | Path) -> Tokenizer:
    """Load ``tokenizer.json`` of a folder, without its padding and truncation.

    Raises ``InputError`` where the folder has none.
    """
    from tokenizers import Tokenizer

    path = Path(folder) / "tokenizer.json"
    if not path.is_file():
        raise InputError(f"{folder} has no tokenizer.json; save the checkpoint with a fast tokenizer")
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def read_windows(
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    domains: Sequence[str] | None,
    tokenizer: Tokenizer,
    form: str,
    max_length: int,
) -> list[Window]:
    """Render every pair and return windows of at most ``max_length`` tokens.

    ``form`` names the rendering.  Windows come in the order of their pairs, at least one each.  Raises
    ``InputError`` where the three sequences differ in length.
    """
    if len(sources) != len(targets) or (domains is not None and len(domains) != len(sources)):
        raise InputError(
            f"{len(sources)} sources, {len(targets)} targets and "
            f"{len(sources) if domains is None else len(domains)} domains; give one of each per pair"
        )
    named = rendering.named(form)
    labels = list(domains) if domains is not None else [""] * len(sources)
    encoded = tokenizer.encode_batch(
        [named(s, t, domain=d) for s, t, d in zip(sources, targets, labels, strict=True)]
    )

    @lru_cache(maxsize=4096)
    def places(text: str) -> tuple[tuple[int, int], ...]:
        return tuple(tokenizer.encode(text, add_special_tokens=False).offsets)

    found: list[Window] = []
    for pair, encoding in enumerate(encoded):
        if len(encoding.ids) <= max_length:
            found.append(_window(encoding, pair=pair))
            continue
        frame = len(tokenizer.encode(*named("", "", domain=labels[pair])).ids)
        room = max(2, max_length - frame)
        parts = window_pairs(sources[pair], targets[pair], places=places, room=room)
        rendered = [named(s, t, domain=labels[pair]) for s, t in parts]
        found += [_window(part, pair=pair, limit=max_length) for part in tokenizer.encode_batch(rendered)]
    return found


def _window(encoding: Encoding, *, pair: int, limit: int | None = None) -> Window:
    ids = np.array(encoding.ids, dtype=np.int64)
    sides = np.array(side_of_tokens(encoding.sequence_ids, len(ids)), dtype=np.int64)
    # Joined pieces may tokenise to a token more than their parts; the frame of a very long domain can, too.
    return Window(ids[:limit], sides[:limit], pair)


def side_of_tokens(sequence: Sequence[int | None], size: int) -> list[int]:
    """1 from the first token of the second text on, 0 before; tokenizers without type ids need this."""
    start = next((i for i, side in enumerate(sequence) if side == 1), size)
    return [int(i >= start) for i in range(size)]
