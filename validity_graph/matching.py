"""What two texts are matched by: character features, sentences, and a key that restatements share.

Knows strings only.  Words give padded character 4-grams (McNamee and Mayfield, "Character n-gram
tokenization for European language text retrieval", 2004: no stemmer, any language); a script without
spaces gives its characters and pairs of them.  Unicode is normalised here, for matching, and nowhere else.
"""

from __future__ import annotations

import re
import unicodedata

GRAM = 4
#: A long memory is cut into at most this many stretches of sentences, so that a change buried in it is seen.
MAX_SEGMENTS = 16

# Python's \w leaves out the vowel signs of Indic and South-East Asian scripts; they belong to the word.
_WORD = re.compile(r"[\w\u0300-\u036f\u0900-\u0dff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+")
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]+"
)
# One Han character carries meaning; one kana or Thai letter does not (Hangul syllables lie behind Han).
_FIRST_HAN = "\u3400"
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])|\n+")
_THOUSANDS = re.compile(r"(?<=\d)[,\u2019'\u00a0\u202f](?=\d{3}(?!\d))")


def grams(text: str) -> list[str]:
    """Return the character features of ``text``, repeated as often as they occur, NFKC and case-folded."""
    folded = _THOUSANDS.sub("", unicodedata.normalize("NFKC", text).casefold())
    found: list[str] = []
    for word in _WORD.findall(folded):
        start = 0
        for run in _UNSPACED.finditer(word):
            found += _padded(word[start : run.start()])
            characters = run.group()
            found += [letter for letter in characters if letter >= _FIRST_HAN or len(characters) == 1]
            found += [characters[i : i + 2] for i in range(len(characters) - 1)]
            start = run.end()
        found += _padded(word[start:])
    return found


def _padded(word: str) -> list[str]:
    if not word:
        return []
    padded = f"_{word}_"
    return [padded[i : i + GRAM] for i in range(max(1, len(padded) - GRAM + 1))]


def restatement_key(text: str) -> str:
    """Return a key equal for texts in the same words: case, white space, closing . and ! do not count."""
    folded = unicodedata.normalize("NFC", text).casefold()
    return " ".join(folded.split()).rstrip(".!\u3002\uff01 ")


def segments(text: str) -> list[str]:
    """Return the sentences of ``text`` in at most ``MAX_SEGMENTS`` stretches of equal count; never empty."""
    sentences = [part for part in _SENTENCE_END.split(text) if part.strip()] or [text]
    stride = -(-len(sentences) // MAX_SEGMENTS)
    return [" ".join(sentences[i : i + stride]) for i in range(0, len(sentences), stride)]
