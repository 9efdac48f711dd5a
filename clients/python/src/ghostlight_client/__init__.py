"""A client of a Ghostlight server: turns, event streams that resume, approvals and sessions.

It speaks the JSON interface below `/api/v1`, which `/openapi.json` of a server describes, and needs the standard library alone.
"""

from __future__ import annotations

import base64
import json
import math
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

__all__ = ["Client", "Event", "File", "Problem", "Question", "Run", "Session", "Turn"]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 10.0
# The refusals that pass: of the server under load or at its end, and of a proxy before it meanwhile.
_PASSING = (429, 502, 503, 504)
# The type of the refusal of an answer that the question has already.
_ANSWERED = "urn:ghostlight:problem:answered"
# The longest time that one request waits for a run's end, in seconds.
_WAIT = 30
# After how many seconds a stream counts as one that worked, though no event came.
_WORKED = 1.0


class Problem(Exception):
    """A request that the server refused or could not serve (RFC 9457)."""

    def __init__(self, status: int, detail: str, type: str = "about:blank", retry_after: float = 0.0) -> None:
        super().__init__(f"{status}: {detail}")
        #: The HTTP status.
        self.status = status
        #: What happened, and what to do next.
        self.detail = detail
        #: A URI that names the kind of the problem, such as `urn:ghostlight:problem:not-found`.
        self.type = type
        #: After how many seconds the server asks to try again; 0 where it does not say.
        self.retry_after = retry_after


@dataclass(frozen=True)
class File:
    """A file that goes with a turn: its bytes, or an address that the model's server can reach."""

    media_type: str
    content: Optional[bytes] = None
    url: Optional[str] = None
    name: Optional[str] = None

    def _json(self) -> Dict[str, Any]:
        encoded = None if self.content is None else base64.b64encode(self.content).decode()
        fields = {"media_type": self.media_type, "name": self.name, "base64": encoded, "url": self.url}
        return {key: value for key, value in fields.items() if value is not None}


@dataclass(frozen=True)
class Event:
    """An event of a run or of a run below it."""

    #: Its place in the store's order, from which a stream resumes. A preview, which is not recorded, has none.
    id: Optional[str]
    #: Its kind, such as `tool_called`.
    type: str
    #: The fields of this kind.
    data: Any
    #: The id of its run.
    run: str
    #: The agents from the root's to the one of its run.
    path: List[str]
    #: When it was recorded, in milliseconds since 1970.
    at: Optional[int]


@dataclass(frozen=True)
class Question:
    """A question of a run, which waits for its answer."""

    #: The id of the asking run.
    run: str
    #: The operation that asks; the answer names it.
    operation: str
    #: The kind of answer that is wanted, such as `approval` or `choice`.
    kind: str
    #: The question, for a person.
    prompt: str
    #: The tool call in question, for an approval.
    call: Optional[Dict[str, Any]]
    #: The possible answers to a choice.
    options: List[str]
    #: All fields, as the server gives them.
    raw: Dict[str, Any] = field(repr=False)
    _client: "Client" = field(repr=False, compare=False)

    def answer(self, value: Any) -> None:
        """Answers. The first answer to a question counts: another one is refused with 409.

        After a broken connection the answer is sent again. That the question has this answer already is then no error.
        """
        body = {"operation": self.operation, "value": value}
        self._client._request("POST", f"/api/v1/runs/{_part(self.run)}/answers", body, again=True, done=_ANSWERED)

    def approve(self, **more: Any) -> None:
        """Approves; `more` are further fields of the decision, such as `remember=True`."""
        self.answer({"approved": True, **more})

    def deny(self, reason: Optional[str] = None) -> None:
        """Denies an approval, with a reason that the model reads."""
        self.answer({"approved": False} if reason is None else {"approved": False, "reason": reason})


class Client:
    """A server, and a key or token for it.

    `timeout` bounds in seconds how long the server may be silent: a stream sends a sign of life every 15 seconds.
    `max_failures` bounds how often in a row a connection may fail before the error is raised.
    """

    def __init__(self, url: str, key: Optional[str] = None, *, timeout: float = 60.0, max_failures: int = 8) -> None:
        self._url = url.rstrip("/")
        self._key = key
        self._timeout = timeout
        self._max_failures = max_failures

    def session(self, team: str, key: str) -> "Session":
        """A session of a team. It begins with its first turn."""
        return Session(self, team, key)

    def run(self, id: str) -> "Run":
        """The run with this id."""
        return Run(self, id)

    def teams(self) -> List[Dict[str, Any]]:
        """The teams that the caller may use."""
        return self.request("GET", "/api/v1/teams")

    def sessions(self, **query: Any) -> Iterator[Dict[str, Any]]:
        """Sessions, the latest first; `query` as in `/openapi.json`, such as `team="helpdesk"`."""
        return self._pages("/api/v1/sessions", "sessions", query)

    def runs(self, **query: Any) -> Iterator[Dict[str, Any]]:
        """Runs, the latest first; `query` as in `/openapi.json`, such as `status="waiting"`."""
        return self._pages("/api/v1/runs", "runs", query)

    def questions(self) -> List[Question]:
        """The open questions of all runs of the caller."""
        return self._questions(self.request("GET", "/api/v1/questions"))

    def request(self, method: str, path: str, body: Any = None, *, again: bool = False) -> Any:
        """One request with its JSON answer. `again` sends it anew after a broken connection, a 429, 502, 503 or 504."""
        return self._request(method, path, body, again=again or method == "GET")

    def _request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        again: bool,
        until: Optional[float] = None,
        done: Optional[str] = None,
    ) -> Any:
        """`until` bounds all attempts together. `done` is the type of the refusal of what an attempt has done whose response was lost."""
        failures, is_lost = 0, False
        while True:
            try:
                with self._open(method, path, body, until=until) as response:
                    content = response.read()
                    return json.loads(content) if content else None
            except Exception as error:
                if is_lost and isinstance(error, Problem) and error.type == done:
                    return None
                is_lost = is_lost or not isinstance(error, Problem)
                failures = self._failed(error, failures, again, until)

    def _pages(self, path: str, name: str, query: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
        query = {key: _word(value) for key, value in query.items() if value is not None}
        while True:
            page = self.request("GET", f"{path}?{urllib.parse.urlencode(query)}")
            yield from page[name]
            if page["next"] is None:
                return
            query["after"] = page["next"]

    def _questions(self, views: Sequence[Dict[str, Any]]) -> List[Question]:
        def read(view: Dict[str, Any]) -> Question:
            asked = view["question"]
            return Question(
                run=view["run"],
                operation=view["operation"],
                kind=asked["kind"],
                prompt=asked["prompt"],
                call=asked.get("call"),
                options=asked.get("options") or [],
                raw=asked,
                _client=self,
            )

        return [read(view) for view in views]

    def _open(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Optional[Dict[str, str]] = None,
        until: Optional[float] = None,
    ) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, headers or {}, method=method)
        if data is not None:
            request.add_header("Content-Type", "application/json")
        if self._key is not None:
            # Another server, to which this one redirects, must not learn the key.
            request.add_unredirected_header("Authorization", f"Bearer {self._key}")
        # A last look at the end of a time gets a second for itself.
        left = self._timeout if until is None else min(self._timeout, max(1.0, until - time.monotonic()))
        try:
            return urllib.request.urlopen(request, timeout=left)
        except urllib.error.HTTPError as error:
            raise _problem(error) from None

    def _failed(self, error: Exception, failures: int, again: bool, until: Optional[float] = None) -> int:
        """Pauses before another attempt, or raises the error."""
        pause = min(_FIRST_PAUSE * 2**failures, _LONGEST_PAUSE)
        if isinstance(error, Problem):
            again = again and error.status in _PASSING
            pause = max(pause, error.retry_after)
        elif not isinstance(error, (OSError, HTTPException)):
            raise error
        if not again or failures + 1 >= self._max_failures:
            raise error
        if until is not None and time.monotonic() + pause >= until:
            raise TimeoutError(f"no time is left for another attempt after: {error}") from error
        time.sleep(pause)
        return failures + 1


class Session:
    """A conversation with a team."""

    def __init__(self, client: Client, team: str, key: str) -> None:
        self._client = client
        self.team = team
        self.key = key
        self._path = f"/api/v1/sessions/{_part(team)}/{_part(key)}"

    def send(
        self,
        text: str = "",
        *,
        id: Optional[str] = None,
        files: Sequence[File] = (),
        dry_run: bool = False,
        streaming: Optional[bool] = None,
        budget: Optional[Dict[str, Any]] = None,
        deadline: Optional[int] = None,
    ) -> "Turn":
        """Sends a turn, and comes back when it is recorded.

        `id` names the turn: sent again under one id it is one run. `deadline` is in milliseconds since 1970.
        """
        fields = {"budget": budget, "streaming": streaming, "deadline": deadline}
        body = {key: value for key, value in fields.items() if value is not None}
        body.update(text=text, files=[file._json() for file in files], id=id or str(uuid.uuid4()), dry_run=dry_run)
        # Under one id it is one turn, however often it is sent.
        def sent() -> Dict[str, Any]:
            return self._client.request("POST", f"{self._path}/turns?wait=1", body, again=True)

        return Turn(self._client, self._client.request("POST", f"{self._path}/turns", body, again=True), sent)

    def ask(self, text: str, *, timeout: Optional[float] = None, **more: Any) -> "Turn":
        """Sends a turn, and waits until its run ends or asks something."""
        return self.send(text, **more).wait(timeout)

    def turns(self) -> Dict[str, Any]:
        """The session's log with its turns."""
        return self._client.request("GET", self._path)

    def messages(self) -> List[Dict[str, Any]]:
        """The conversation, up to the last turn that ended."""
        return self._client.request("GET", f"{self._path}/messages")

    def fork(self, key: str, turns: int) -> "Session":
        """Another session, with this key, that goes on after a number of turns."""
        self._client.request("POST", f"{self._path}/fork", {"key": key, "turns": turns})
        return Session(self._client, self.team, key)

    def rewind(self, turns: int) -> None:
        """Goes back to where the session had this number of turns."""
        self._client.request("POST", f"{self._path}/rewind", {"turns": turns})


class Turn:
    """A recorded turn."""

    def __init__(self, client: Client, view: Dict[str, Any], sent: Callable[[], Dict[str, Any]]) -> None:
        self._client = client
        self._sent = sent
        # Whether the turn was said to a run under way, which may end without it.
        self._joined: bool = view.get("joined", False)
        self._read(view)

    def _read(self, view: Dict[str, Any]) -> None:
        #: Its run.
        self.run = Run(self._client, view["run"]["id"])
        #: running, waiting, parked, cancelling, answered, stopped, failed, cancelled or continued.
        self.status: str = view["run"]["status"]
        end = view["end"] or {}
        #: Whether the run has ended or is parked.
        self.has_ended: bool = view["end"] is not None
        #: The answer, or the best one that the run had when it stopped.
        self.answer: Optional[str] = end.get("answer")
        #: Why it stopped before its task was done.
        self.stopped: Optional[str] = end.get("stopped")
        #: The error with which it failed, or for which it is parked.
        self.error: Optional[str] = end.get("error")
        #: The open questions, if the run waits for answers.
        self.questions: List[Question] = self._client._questions(view["questions"])

    def wait(self, timeout: Optional[float] = None) -> "Turn":
        """Waits until the run ends or asks something, and returns this turn. Raises `TimeoutError` after `timeout` seconds.

        Where the turn was said to a run that ended without it, `run` becomes the one that took it. Its key needs the scope
        `read`.
        """
        until = None if timeout is None else time.monotonic() + timeout
        longest = min(_WAIT, self._client._timeout / 2)
        while True:
            left = longest if until is None else min(longest, max(0.0, until - time.monotonic()))
            path = f"{self.run._path}?wait={int(left)}"
            view = self._client._request("GET", path, again=True, until=until)
            if self._joined and view["end"] is not None:
                # Sent again, the turn names the run that took it.
                view = self._sent()
                self._joined = view.get("joined", False)
            self._read(view)
            if self.has_ended or self.questions:
                return self
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"run {self.run.id} is still {self.status}")
            # The server counts whole seconds.
            if left < 1:
                time.sleep(min(left, _FIRST_PAUSE))


class Run:
    """A run of a turn, or one below it."""

    def __init__(self, client: Client, id: str) -> None:
        self._client = client
        self.id = id
        self._path = f"/api/v1/runs/{_part(id)}"

    def details(self) -> Dict[str, Any]:
        """Its status, end, questions and budget."""
        return self._client.request("GET", self._path)

    def questions(self) -> List[Question]:
        """The open questions of the run and of the runs below it."""
        return self._client._questions(self._client.request("GET", f"{self._path}/questions"))

    def events(self, after: Optional[str] = None, *, previews: bool = True) -> Iterator[Event]:
        """The events of the run and of the runs below it, from the first or behind the id `after`, until the run ends.

        A stream that breaks is resumed behind the last id: each recorded event comes once. Previews (pieces of an answer) that
        were sent meanwhile are lost. A connection that gave no event and ended within a second counts as failed.
        """
        failures = 0
        while True:
            headers = {"Accept": "text/event-stream"}
            if after is not None:
                headers["Last-Event-ID"] = after
            began, came = math.inf, False
            try:
                with self._client._open("GET", f"{self._path}/events?previews={_word(previews)}", None, headers) as stream:
                    # Nothing comes behind the last event of an ended run.
                    if stream.status == 204:
                        return
                    began = time.monotonic()
                    for event in _read_events(stream):
                        came, failures = True, 0
                        after = event.id if event.id is not None else after
                        yield event
                if not came:
                    raise ConnectionError("the stream ended before its first event")
            except Exception as error:
                # A stream that tells of a problem did not work.
                if time.monotonic() - began >= _WORKED and not isinstance(error, Problem):
                    failures = 0
                failures = self._client._failed(error, failures, True)

    def cancel(self, reason: Optional[str] = None) -> None:
        """Cancels the run and all below it. Cancelling twice is cancelling once."""
        body = {} if reason is None else {"reason": reason}
        self._client.request("POST", f"{self._path}/cancel", body, again=True)

    def steer(self, text: str) -> None:
        """Says something to a run at work."""
        self._client.request("POST", f"{self._path}/steer", {"text": text})


def _part(text: str) -> str:
    return urllib.parse.quote(text, safe="")


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _problem(error: urllib.error.HTTPError) -> Problem:
    text = error.read().decode("utf-8", "replace")
    asked = error.headers.get("Retry-After", "")
    retry_after = float(asked) if asked.isdigit() else 0.0
    try:
        told = json.loads(text)
        return Problem(error.code, told["detail"], told["type"], retry_after)
    except (ValueError, KeyError, TypeError):
        return Problem(error.code, text.strip() or error.reason, retry_after=retry_after)


def _read_events(stream: Any) -> Iterator[Event]:
    """The events of a stream (server-sent events). One that is cut off in its middle is left out."""
    id, name, data = None, "message", []
    for line in stream:
        # The end of a broken connection may lie within a character.
        if not line.endswith(b"\n"):
            return
        line = line.decode("utf-8").rstrip("\r\n")
        if line:
            key, _, value = line.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if key == "id":
                id = value
            elif key == "event":
                name = value
            elif key == "data":
                data.append(value)
            continue
        if data:
            view = json.loads("\n".join(data))
            if name == "problem":
                raise Problem(view["status"], view["detail"], view["type"])
            yield Event(id, view["type"], view.get("data"), view["run"], view.get("path", []), view.get("at"))
        id, name, data = None, "message", []
