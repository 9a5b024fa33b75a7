"""A slot head that asks a language model over any OpenAI-compatible endpoint; never required.

The model reasons first and then states a probability, in a JSON schema, so the verdict follows from the
reasons. Answers are cached by model and prompt, in memory and, if asked, in a JSONL file; requests run a
bounded number at a time.  Needs httpx.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validity_graph.errors import InputError, MissingExtraError, ValidityGraphError
from validity_graph.verifier import rendering

INSTRUCTION = (
    "You judge whether a later memory directly and specifically overturns an earlier one. It does when, "
    "given the later memory, the earlier one no longer holds or never held. It does not when the later "
    "memory is about another person, thing or attribute, adds to the earlier one, repeats or confirms it, is "
    "hypothetical, planned, quoted, joking or a question, or tells of the past. When in doubt, it does not. "
    "Give your reasons first."
)
SCHEMA: dict[str, Any] = {
    "name": "overturn_verdict",
    "strict": True,
    "schema": {
        "type": "object",
        # The order matters: the reasons are written before the verdict.
        "properties": {
            "reasoning": {"type": "string"},
            "probability": {"type": "number", "minimum": 0, "maximum": 1},
        },
        "required": ["reasoning", "probability"],
        "additionalProperties": False,
    },
}


class EndpointError(ValidityGraphError):
    """The endpoint refused, failed more often than allowed, or answered something else than the schema."""


class LLMHead:
    """Asks ``model`` at ``base_url`` (``.../v1``) for the slot probability of each pair."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str = "",
        cache: str | Path | None = None,
        concurrency: int = 4,
        attempts: int = 3,
        timeout: float = 60.0,
        pause: float = 0.5,
    ) -> None:
        """Set up the client; nothing is sent yet.

        ``cache`` is a JSONL file that is read now and appended to.  A request that fails with 429, a 5xx
        status or a broken connection is sent again, ``attempts`` times in all, waiting ``pause * 2**k``
        seconds.  Raises ``MissingExtraError`` without httpx, ``InputError`` for a concurrency or a number
        of attempts under 1.
        """
        try:
            import httpx
        except ImportError:
            raise MissingExtraError("LLMHead", needs="httpx", extra="llm") from None
        if concurrency < 1 or attempts < 1:
            raise InputError(f"concurrency={concurrency} and attempts={attempts} must be at least 1")
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._client = httpx.Client(headers=headers, timeout=timeout)
        self._broken = httpx.TransportError
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._model, self._concurrency, self._attempts, self._pause = model, concurrency, attempts, pause
        self._file = None if cache is None else Path(cache)
        self._lock = threading.Lock()
        self._known: dict[str, float] = _read_cache(self._file)

    def slot(
        self, sources: Sequence[str], targets: Sequence[str], *, domains: Sequence[str] | None = None
    ) -> NDArray[np.float64]:
        """Slot probability per pair, shape ``(n,)``, in [0, 1]; equal pairs are asked once.

        Raises ``EndpointError`` where the endpoint gives no usable answer.
        """
        labels = domains if domains is not None else [""] * len(sources)
        prompts = [
            "\n".join(rendering.paper(s, t, domain=d))
            for s, t, d in zip(sources, targets, labels, strict=True)
        ]
        missing = [p for p in dict.fromkeys(prompts) if self._key(p) not in self._known]
        with ThreadPoolExecutor(max_workers=self._concurrency) as pool:
            list(pool.map(self._ask_and_keep, missing))
        return np.array([self._known[self._key(prompt)] for prompt in prompts], dtype=np.float64)

    def _key(self, prompt: str) -> str:
        return hashlib.sha256(f"{self._model}\0{INSTRUCTION}\0{prompt}".encode()).hexdigest()

    def _ask_and_keep(self, prompt: str) -> None:
        probability = self._ask(prompt)
        with self._lock:
            self._known[self._key(prompt)] = probability
            if self._file is not None:
                with self._file.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps({"key": self._key(prompt), "probability": probability}) + "\n")

    def _ask(self, prompt: str) -> float:
        body = {
            "model": self._model,
            "temperature": 0,
            "messages": [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": prompt}],
            "response_format": {"type": "json_schema", "json_schema": SCHEMA},
        }
        last = ""
        for k in range(self._attempts):
            if k:
                time.sleep(self._pause * 2 ** (k - 1))
            try:
                answer = self._client.post(self._url, json=body)
            except self._broken as error:
                last = f"cannot be reached ({error})"
                continue
            if answer.status_code == 200:
                return _verdict(answer.text, url=self._url)
            last = f"answered {answer.status_code}: {answer.text[:200]}"
            if answer.status_code != 429 and answer.status_code < 500:
                break
        raise EndpointError(f"{self._url} {last}; check the address, the key and the model {self._model!r}")


def _verdict(text: str, *, url: str) -> float:
    """Probability out of a chat completion's JSON.

    Raises ``EndpointError`` for anything that is not a number in [0, 1].
    """
    try:
        content = json.loads(text)["choices"][0]["message"]["content"]
        probability = float(json.loads(content)["probability"])
    except (ValueError, KeyError, IndexError, TypeError):
        raise EndpointError(f"{url} did not answer in the schema: {text[:200]}") from None
    if not 0.0 <= probability <= 1.0:
        raise EndpointError(f"{url} answered probability={probability}, which does not lie in [0, 1]")
    return probability


def _read_cache(path: Path | None) -> dict[str, float]:
    if path is None or not path.is_file():
        return {}
    known = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
            known[str(row["key"])] = float(row["probability"])
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{path}, line {number}: not a cached verdict; delete the line") from None
    return known
