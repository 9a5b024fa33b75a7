"""How a (source, target) pair becomes the two segments that a cross-encoder reads.

Two renderings: ``paper`` is the exact input form of [V3] section 5.1; ``short`` carries the texts alone,
which costs about half the tokens.  Which one a checkpoint was trained with is written in its manifest.
Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Callable

from validity_graph.errors import InputError

QUESTION = "Does SOURCE directly and specifically overturn TARGET?"


def paper(source: str, target: str, *, domain: str = "") -> tuple[str, str]:
    """Return the source side and the target side exactly as [V3] section 5.1 writes them."""
    return f"SOURCE_MEMORY: {source} QUESTION: {QUESTION}", f"TARGET_MEMORY: {target} DOMAIN: {domain}"


def short(source: str, target: str, *, domain: str = "") -> tuple[str, str]:
    """Return the two texts themselves; the domain is left out."""
    del domain
    return source, target


RENDERINGS: dict[str, Callable[..., tuple[str, str]]] = {"paper": paper, "short": short}


def named(name: str) -> Callable[..., tuple[str, str]]:
    """Return the rendering called ``name``.

    Raises ``InputError`` for a name that is not in ``RENDERINGS``.
    """
    try:
        return RENDERINGS[name]
    except KeyError:
        raise InputError(f"rendering {name!r} is not one of {', '.join(sorted(RENDERINGS))}") from None
