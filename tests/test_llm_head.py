"""A language model behind an endpoint as a head, against a local stub server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from validity_graph.errors import InputError
from validity_graph.verifier import rendering
from validity_graph.verifier.llm import EndpointError, LLMHead
from validity_graph.verifier.scoring import Verifier


@pytest.fixture(scope="module")
def verifier() -> Verifier:
    return Verifier.load(threads=2)


class Endpoint:
    """A local stand-in for an OpenAI-compatible endpoint: answers from a list, then from ``default``."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[str | None] = []
        self.answers: list[tuple[int, str]] = []
        self.default = (200, completion({"reasoning": "because", "probability": 0.75}))
        self.active = self.most_active = 0
        self.lock = threading.Lock()
        self.pause = threading.Event()

    def serve(self) -> ThreadingHTTPServer:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                with endpoint.lock:
                    endpoint.active += 1
                    endpoint.most_active = max(endpoint.most_active, endpoint.active)
                    body = self.rfile.read(int(self.headers["Content-Length"]))
                    endpoint.bodies.append({"path": self.path, **json.loads(body)})
                    endpoint.headers.append(self.headers.get("Authorization"))
                    status, text = endpoint.answers.pop(0) if endpoint.answers else endpoint.default
                endpoint.pause.wait(0.05)
                with endpoint.lock:
                    endpoint.active -= 1
                self.send_response(status)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *args: Any) -> None:
                del args

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server


def completion(verdict: dict[str, Any]) -> str:
    return json.dumps({"choices": [{"message": {"content": json.dumps(verdict)}}]})


QUIT, WORKS = "I quit Acme, I work at Globex now", "I work at Acme as an analyst"


@pytest.fixture
def endpoint() -> Iterator[tuple[Endpoint, str]]:
    stub = Endpoint()
    server = stub.serve()
    yield stub, f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()


def test_llm_head_asks_in_the_paper_form_with_reasons_before_the_verdict(
    endpoint: tuple[Endpoint, str],
) -> None:
    stub, url = endpoint
    head = LLMHead(url, "some-model", api_key="secret")
    assert head.slot(["I moved"], ["I live here"], domains=["home"]).tolist() == [0.75]
    body = stub.bodies[0]
    assert body["path"] == "/v1/chat/completions" and body["model"] == "some-model"
    assert stub.headers == ["Bearer secret"]
    assert body["messages"][1]["content"] == "\n".join(
        rendering.paper("I moved", "I live here", domain="home")
    )
    schema = body["response_format"]["json_schema"]["schema"]
    assert list(schema["properties"])[0] == "reasoning" and set(schema["required"]) == set(
        schema["properties"]
    )


def test_llm_head_asks_equal_pairs_once_and_remembers_on_disk(
    endpoint: tuple[Endpoint, str], tmp_path: Any
) -> None:
    stub, url = endpoint
    cache = tmp_path / "verdicts.jsonl"
    head = LLMHead(url, "m", cache=cache)
    assert head.slot(["a", "a", "b"], ["x", "x", "x"]).tolist() == [0.75] * 3
    assert len(stub.bodies) == 2
    assert LLMHead(url, "m", cache=cache).slot(["b", "a"], ["x", "x"]).tolist() == [0.75] * 2
    assert len(stub.bodies) == 2
    LLMHead(url, "other", cache=cache).slot(["a"], ["x"])
    assert len(stub.bodies) == 3
    cache.write_text("nonsense\n")
    with pytest.raises(InputError, match="line 1"):
        LLMHead(url, "m", cache=cache)


def test_llm_head_bounds_how_many_requests_run(endpoint: tuple[Endpoint, str]) -> None:
    stub, url = endpoint
    LLMHead(url, "m", concurrency=2).slot([f"s{k}" for k in range(8)], ["t"] * 8)
    assert len(stub.bodies) == 8
    assert stub.most_active == 2


def test_llm_head_tries_again_after_trouble_and_gives_up_in_the_end(endpoint: tuple[Endpoint, str]) -> None:
    stub, url = endpoint
    stub.answers = [(503, "busy"), (429, "slow down")]
    assert LLMHead(url, "m", pause=0.0).slot(["a"], ["b"]).tolist() == [0.75]
    assert len(stub.bodies) == 3
    stub.default = (500, "broken")
    with pytest.raises(EndpointError, match="500"):
        LLMHead(url, "m", attempts=2, pause=0.0).slot(["c"], ["d"])
    assert len(stub.bodies) == 5
    stub.default = (401, "who are you")
    with pytest.raises(EndpointError, match="401"):
        LLMHead(url, "m", pause=0.0).slot(["e"], ["f"])
    assert len(stub.bodies) == 6


@pytest.mark.parametrize(
    "text",
    [
        "not json",
        "{}",
        completion({"reasoning": "no verdict"}),
        completion({"reasoning": "r", "probability": 3}),
        completion({"reasoning": "r", "probability": "high"}),
    ],
)
def test_llm_head_refuses_answers_outside_the_schema(endpoint: tuple[Endpoint, str], text: str) -> None:
    stub, url = endpoint
    stub.default = (200, text)
    with pytest.raises(EndpointError):
        LLMHead(url, "m").slot(["a"], ["b"])


def test_llm_head_names_an_address_that_nobody_answers() -> None:
    with pytest.raises(EndpointError, match="cannot be reached"):
        LLMHead("http://127.0.0.1:9/v1", "m", attempts=1).slot(["a"], ["b"])
    with pytest.raises(InputError, match="concurrency=0"):
        LLMHead("http://127.0.0.1:9/v1", "m", concurrency=0)


def test_llm_head_serves_as_the_second_head(endpoint: tuple[Endpoint, str], verifier: Verifier) -> None:
    _, url = endpoint
    scores = verifier.asking_always(LLMHead(url, "m")).score([QUIT], [WORKS])
    assert scores.slot_nli.tolist() == [0.75]
    assert scores.evidence(0).gate == pytest.approx(scores.gate[0])
