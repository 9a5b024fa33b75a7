"""Credit of the operations of an episode from the scores of those that follow.

The min form gives every operation the weakest score from it to the end of its episode, so that no later
high score lifts it and only mending the weakest operation raises the sum; on a chain it is the
bottleneck path.  The sum form is what the ablation compares it with.  Knows arrays only.
SEMANTICS section 6; [PRM] Appendix A, Eq. 8.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from validity_graph.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

_Values = NDArray[np.floating[Any]]
_Positions = NDArray[np.int64]
Scores = TypeVar("Scores", bound="np.floating[Any]")
#: Up to this many scores the plain loops are faster than loading the compiler.
_PLAIN_LIMIT = 20_000


@overload
def min_credit(scores: NDArray[Scores], offsets: ArrayLike) -> NDArray[Scores]: ...
@overload
def min_credit(scores: Tensor, offsets: Tensor | ArrayLike) -> Tensor: ...
def min_credit(scores: Any, offsets: Any) -> Any:
    """Min-form credit ``c_t = min_{s >= t} p_s`` within each episode.

    ``scores``: float[n], the episodes behind one another; ``offsets``: int[k + 1], rising from 0 to n;
    episode i is ``scores[offsets[i]:offsets[i + 1]]`` and may be empty.  Returns float[n] like ``scores``:
    an array for anything array-like, a tensor for a tensor, whose gradient goes to the score that is the
    minimum (the earliest one among equals) and to no other.

    Raises ``InputError`` for a score that is not a number and for offsets that do not fit.
    SEMANTICS section 6; [PRM] Eq. 8.
    """
    if _is_tensor(scores):
        # The position of each minimum has no gradient; picking the scores there has.
        values = _checked_scores(scores.detach().cpu().numpy())
        position = _loops(values.size)._weakest(values, _checked_offsets(offsets, values.size))
        return scores[_tensor_like(position, scores)]
    values = _checked_scores(scores)
    return _loops(values.size)._lowest(values, _checked_offsets(offsets, values.size))


@overload
def sum_credit(scores: NDArray[Scores], offsets: ArrayLike) -> NDArray[Scores]: ...
@overload
def sum_credit(scores: Tensor, offsets: Tensor | ArrayLike) -> Tensor: ...
def sum_credit(scores: Any, offsets: Any) -> Any:
    """Sum-form credit ``c_t = sum_{s >= t} p_s`` within each episode.

    Arguments, result and errors as for ``min_credit``; the gradient of c_t goes to every score from t on.
    The arm that [PRM] compares with; it breaks laws (iii) and (iv) of SEMANTICS section 6.
    """
    if not _is_tensor(scores):
        values = _checked_scores(scores)
        return _loops(values.size)._total(values, _checked_offsets(offsets, values.size))
    bounds = _checked_offsets(offsets, _checked_scores(scores.detach().cpu().numpy()).size)
    # Differences of one running sum; in float64, so that long inputs do not lose the short episodes.
    after = _torch().nn.functional.pad(scores.double().cumsum(0), (1, 0))
    end = _tensor_like(np.repeat(bounds[1:], np.diff(bounds)), scores)
    return (after[end] - after[:-1]).to(scores.dtype)


def _lowest(scores: _Values, offsets: _Positions) -> _Values:
    """Suffix minimum of each episode."""
    credit = np.empty_like(scores)
    for i in range(offsets.size - 1):
        low = np.inf
        for t in range(offsets[i + 1] - 1, offsets[i] - 1, -1):
            low = min(low, scores[t])
            credit[t] = low
    return credit


def _weakest(scores: _Values, offsets: _Positions) -> _Positions:
    """Position of the suffix minimum of each episode, int64[n]; the earliest among equals."""
    position = np.empty(scores.size, dtype=np.int64)
    for i in range(offsets.size - 1):
        at = offsets[i + 1] - 1
        for t in range(offsets[i + 1] - 1, offsets[i] - 1, -1):
            if scores[t] <= scores[at]:
                at = t
            position[t] = at
    return position


def _total(scores: _Values, offsets: _Positions) -> _Values:
    """Suffix sum of each episode, summed in float64."""
    credit = np.empty_like(scores)
    for i in range(offsets.size - 1):
        total = np.float64(0.0)
        for t in range(offsets[i + 1] - 1, offsets[i] - 1, -1):
            total += scores[t]
            credit[t] = total
    return credit


_LOOPS = (_lowest, _weakest, _total)


@lru_cache(maxsize=1)
def _compiled_loops() -> SimpleNamespace:
    from validity_graph.compiled import compiled

    return SimpleNamespace(**{loop.__name__: compiled(loop) for loop in _LOOPS})


def _loops(size: int) -> SimpleNamespace:
    if size <= _PLAIN_LIMIT:
        return SimpleNamespace(**{loop.__name__: loop for loop in _LOOPS})
    return _compiled_loops()


def _checked_scores(scores: ArrayLike) -> NDArray[np.floating[Any]]:
    array = np.asarray(scores)
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    if array.ndim != 1:
        raise InputError(f"scores have shape {array.shape}; put the episodes behind one another, float[n]")
    wrong = ~np.isfinite(array)
    if wrong.any():
        t = int(np.argmax(wrong))
        raise InputError(f"scores[{t}]={array[t]} must be a finite number")
    return array


def _checked_offsets(offsets: Any, count: int) -> NDArray[np.int64]:  # noqa: ANN401
    array = np.asarray(offsets.cpu() if _is_tensor(offsets) else offsets)
    if array.ndim != 1 or array.size == 0 or not np.issubdtype(array.dtype, np.integer):
        raise InputError(
            "offsets must be int[k + 1]: where each of k episodes starts, then the number of scores"
        )
    if array[0] != 0 or array[-1] != count or (np.diff(array.astype(np.int64)) < 0).any():
        raise InputError(f"offsets must rise from 0 to the number of scores, {count}")
    return array.astype(np.int64)


def _is_tensor(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _torch() -> Any:  # noqa: ANN401
    return sys.modules["torch"]


def _tensor_like(position: NDArray[np.int64], scores: Any) -> Any:  # noqa: ANN401
    return _torch().as_tensor(position, device=scores.device)
