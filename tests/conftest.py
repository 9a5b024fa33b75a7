"""What several test modules start from: a clock to move by hand, the graph of Alice at Acme, its verdicts,
tiny checkpoints."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from validity_graph import ValidityGraph


class Clock:
    """A clock that a test moves by hand."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=timezone.utc)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@pytest.fixture
def acme() -> ValidityGraph:
    graph = ValidityGraph.open(clock=Clock())
    graph.add("job", "Alice works at Acme", time="2025-01-10")
    graph.add("train", "Alice takes the train to Acme", time="2025-01-11", depends_on=["job"])
    graph.add("pass", "Alice has a pass for that line", time="2025-01-12", depends_on=["train"])
    graph.add("cello", "Alice plays the cello", time="2025-01-13")
    graph.add("left", "Alice left Acme", time="2025-06-02", supersedes=["job"])
    return graph


def statuses(graph: ValidityGraph) -> dict[str, str]:
    return {id: verdict.status.value for id, verdict in graph.check().items()}


@pytest.fixture(scope="module", params=["bert", "deberta-v2"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.tiny_checkpoints import save_checkpoint  # torch is loaded where it is needed

    return save_checkpoint(tmp_path_factory.mktemp(request.param), request.param)
