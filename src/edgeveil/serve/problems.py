"""What can go wrong in a request, as a status code, a stable machine-readable code and one sentence."""

from __future__ import annotations

from typing import Any

from edgeveil.errors import BudgetExceeded, EdgeveilError, InputError, LedgerUnavailable
from edgeveil.privacy.ledger.ledger import TokenReused, UnboundedSpend

__all__ = ["AuditUnavailable", "Problem", "QuotaExceeded", "as_problem"]


class AuditUnavailable(LedgerUnavailable):
    """The audit log cannot be written; nothing is answered (fail closed)."""


class QuotaExceeded(EdgeveilError):
    """A query limit Q is used up. Nothing was charged."""

    def __init__(self, subject: str, cap: int) -> None:
        super().__init__(f"query limit reached: {subject} has used all {cap} queries; ask the operator for more")
        self.subject, self.cap = subject, cap


class Problem(EdgeveilError):
    """An error that ends a request: `status` for HTTP, `code` for programs, the message for people."""

    def __init__(self, status: int, code: str, message: str, **extra: Any) -> None:
        super().__init__(message)
        self.status, self.code, self.extra = status, code, extra
        self.retry_after: int | None = extra.pop("retry_after", None)

    def body(self, request_id: str, path: str = "") -> dict[str, Any]:
        """The JSON that the client gets; the Open Inference Protocol (`/v2`) wants the sentence under `error`."""
        if path == "/v2" or path.startswith("/v2/"):
            return {"error": str(self), "code": self.code, "request_id": request_id, **self.extra}
        return {"error": {"code": self.code, "message": str(self), "request_id": request_id, **self.extra}}


def as_problem(error: Exception) -> Problem:
    """The problem behind any exception; unexpected ones say nothing about their cause."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, AuditUnavailable):
        return Problem(503, "audit_unavailable", "the audit log cannot be written: nothing is answered", retry_after=5)
    if isinstance(error, LedgerUnavailable):
        return Problem(503, "ledger_unavailable", "the ledger is unreachable, so nothing is answered", retry_after=5)
    if isinstance(error, QuotaExceeded):
        return Problem(429, "quota_exceeded", str(error))
    if isinstance(error, BudgetExceeded):
        facts = {k: float(getattr(error, k)) for k in ("cap", "spent", "asked", "short")}
        facts = {} if isinstance(error, UnboundedSpend) else facts
        return Problem(409, "budget_exceeded", str(error), **facts)
    if isinstance(error, TokenReused):
        return Problem(409, "token_reused", str(error))
    if isinstance(error, InputError):
        return Problem(422, "bad_input", str(error))
    if isinstance(error, TimeoutError):
        return Problem(504, "timeout", "the answer took too long; ask for fewer nodes", retry_after=1)
    return Problem(500, "internal", "the server failed; the operator's log has the cause under this request id")
