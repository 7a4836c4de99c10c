"""Bob's side of the wire: a live edgeveil server as a `Target`, with retry, pacing and a budget of questions.

Wrap it in a `RecordedTarget` for a transcript: an interrupted attack then resumes without paying twice.
"""

from __future__ import annotations

import io
import os
import random
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError, MissingExtra, TargetError
from edgeveil.privacy.guarantee import Guarantee
from edgeveil.release.target import Target, check_nodes

if TYPE_CHECKING:
    import httpx

__all__ = ["HttpTarget"]

NPZ = "application/x-npz"
KEY_VARIABLE = "EDGEVEIL_KEY"
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
FINAL = frozenset({"quota_exceeded", "guard_refused"})
Int = NDArray[np.int64]


class HttpTarget(Target):
    """A server started by ``edgeveil serve``.

    `only`: nodes of interest; where an answer would cover all nodes, just these rows are fetched and the others are
    zero. `pause`: seconds between questions. `retries`: further tries after a passing failure, with growing waits.
    `max_queries`: refuse to ask more. The key defaults to the environment variable EDGEVEIL_KEY.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        features: Any = None,
        only: Any = None,
        snapshot: str | None = None,
        pause: float = 0.0,
        retries: int = 5,
        timeout: float = 60.0,
        max_queries: int | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__()
        self._client = _client(url, key or os.environ.get(KEY_VARIABLE), timeout)
        self._close = weakref.finalize(self, self._client.close)
        self._snapshot, self._pause, self._retries, self._sleep = snapshot, pause, retries, sleep
        self._max_queries = max_queries
        self._last = 0.0
        self._received = 0
        try:
            facts = self._facts()
        except BaseException:
            self._client.close()
            raise
        self.num_nodes = int(facts["num_nodes"])
        self.num_classes = int(facts["num_classes"])
        self.num_features = facts.get("num_features")
        self._chunk = int(facts["max_nodes"])
        kind = facts["output"]["kind"]
        self._sparse_labels = kind == "labels" and bool(facts["multilabel"])
        self.answer_kind = "probabilities" if self._sparse_labels else kind
        self.facts = facts
        self.features = features
        self._only: Int | None = None
        if only is not None:
            self.restrict(only)

    def guarantee(self) -> Guarantee:
        """What the server states about edges; it is not checked here."""
        query = "" if self._snapshot is None else f"?snapshot={self._snapshot}"
        answer = self._send("GET", f"/v1/guarantee{query}")
        try:
            return Guarantee.from_json(answer.json()["guarantee"])
        except (ValueError, KeyError, TypeError) as error:
            raise TargetError(f"{self._client.base_url} states no readable guarantee: {error!r}") from error

    def restrict(self, nodes: Any) -> None:
        """From now on fetch only these rows where an answer would cover all nodes."""
        self._only = check_nodes(nodes, self.num_nodes, "only")

    def query(self, features: Any = None, nodes: Any = None, induced: bool = False) -> NDArray[Any]:
        """One question; `rows` counts what really came over the wire."""
        if self._max_queries is not None and self.queries >= self._max_queries:
            raise TargetError(f"the limit of {self._max_queries} queries is reached; raise max_queries to go on")
        rows, self._received = self.rows, 0
        out = super().query(features, nodes, induced)
        self.rows = rows + self._received
        return out

    def close(self) -> None:
        """Close the connection; a target that is no longer used closes its own."""
        self._close()

    def __enter__(self) -> HttpTarget:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answer(self, features: Any, nodes: Int | None, induced: bool) -> Any:
        if induced:
            return self._ask({"nodes": nodes, "induced": np.array(True)} | _rows(features))
        if features is None and nodes is not None:
            return np.concatenate([self._ask({"nodes": part}) for part in self._parts(nodes)])
        wanted = np.arange(self.num_nodes) if self._only is None else self._only
        if features is None:
            got = np.concatenate([self._ask({"nodes": part}) for part in self._parts(wanted)])
        else:
            given = {"nodes": np.arange(self.num_nodes) if nodes is None else nodes} | _rows(features)
            got = np.concatenate([self._ask({**given, "answer": part}) for part in self._parts(wanted)])
        if self._only is None:
            return got
        out = np.zeros((self.num_nodes, *got.shape[1:]), got.dtype)
        out[wanted] = got
        return out

    def _parts(self, nodes: Int) -> list[Int]:
        return [nodes[at : at + self._chunk] for at in range(0, len(nodes), self._chunk)]

    def _ask(self, arrays: dict[str, Any]) -> NDArray[Any]:
        """One POST; the answer as labels or as a full matrix (classes that a top-k policy hides are filled low)."""
        buffer = io.BytesIO()
        extra = {} if self._snapshot is None else {"snapshot": np.array(self._snapshot)}
        np.savez(buffer, allow_pickle=False, **{**arrays, **extra})
        body = self._send("POST", "/v1/predict", buffer.getvalue()).content
        try:
            with np.load(io.BytesIO(body), allow_pickle=False) as archive:
                parts = {name: archive[name] for name in archive.files}
        except (ValueError, OSError, EOFError) as error:
            raise TargetError(f"{self._client.base_url} answered something that is not npz: {error}") from error
        if "alone" in parts:
            raise TargetError(
                f"{self._client.base_url} answers each node as if its own row alone had changed, so this attack sees "
                "nothing of edges; that is the server's bound on questions, not a property of the model"
            )
        self._received += len(parts.get("nodes", ()))
        if "labels" in parts:
            return np.asarray(parts["labels"], np.float64 if self._sparse_labels else np.int64)
        values = parts["values"]
        if "classes" not in parts:
            return np.asarray(values)
        fill = 0.0 if self.answer_kind == "probabilities" else float(values.min())
        out = np.full((len(values), self.num_classes), fill)
        np.put_along_axis(out, parts["classes"], values, axis=1)
        return out

    def _facts(self) -> dict[str, Any]:
        answer = self._send("GET", "/v1/model")
        try:
            facts: dict[str, Any] = answer.json()
            return facts | {"num_nodes": int(facts["num_nodes"]), "output": dict(facts["output"])}
        except (ValueError, KeyError, TypeError) as error:
            raise TargetError(f"{self._client.base_url} is not an edgeveil server: {error!r}") from error

    def _send(self, method: str, path: str, content: bytes | None = None) -> httpx.Response:
        """Send, pacing oneself, and try again after failures that may pass."""
        import httpx

        problem = ""
        for attempt in range(self._retries + 1):
            self._wait_turn()
            wait = min(30.0, 0.2 * 2**attempt) * (0.5 + random.random())
            try:
                headers = {"content-type": NPZ, "accept": NPZ} if content is not None else {}
                answer = self._client.request(method, path, content=content, headers=headers)
            except httpx.TransportError as error:
                problem = f"{type(error).__name__}: {error}"
            else:
                if answer.status_code < 400:
                    return answer
                problem, passing = _refusal(answer)
                if not passing:
                    raise TargetError(f"{self._client.base_url} refused: {problem}")
                wait = max(wait, float(answer.headers.get("retry-after", 0) or 0))
            if attempt < self._retries:
                self._sleep(wait)
        raise TargetError(
            f"{self._client.base_url} did not answer after {self._retries + 1} tries ({problem}). With a transcript, "
            "the same command goes on where it stopped"
        )

    def _wait_turn(self) -> None:
        if self._pause > 0:
            ahead = self._last + self._pause - time.monotonic()
            if ahead > 0:
                self._sleep(ahead)
            self._last = time.monotonic()


def _client(url: str, key: str | None, timeout: float) -> httpx.Client:
    try:
        import httpx
    except ImportError as error:
        raise MissingExtra("a remote target", "serve") from error
    if not url.startswith(("http://", "https://")):
        raise InputError(f"{url!r} is no address of a server; write http://host:port or https://host:port")
    headers = {"user-agent": "edgeveil"} | ({} if key is None else {"authorization": f"Bearer {key}"})
    return httpx.Client(base_url=url, headers=headers, timeout=timeout, trust_env=False)


def _rows(features: Any) -> dict[str, Any]:
    if features is None:
        return {}
    dense = features.toarray() if hasattr(features, "toarray") else features
    return {"features": np.asarray(dense, np.float64)}


def _refusal(answer: httpx.Response) -> tuple[str, bool]:
    """What the server said, and whether trying again may help."""
    try:
        error = answer.json()["error"]
        code, message = str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        code, message = "", answer.text[:200]
    passing = answer.status_code in PASSING and code not in FINAL
    return f"{answer.status_code} {code}: {message}", passing
