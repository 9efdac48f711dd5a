"""The client below clients/python against servers that fail: client_of_python_faults.py SOURCE.

Each connection gets the next of some responses, byte by byte as it stands here.
"""

import json
import socket
import sys
import threading
import time

sys.path.insert(0, sys.argv[1])
import ghostlight_client  # noqa: E402
from ghostlight_client import Client, Problem  # noqa: E402


class Scripted:
    """A server that gives each connection the next response, and keeps the requests. `None` is no response at all."""

    def __init__(self, *responses):
        self.responses, self.requests = list(responses), []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        for response in self.responses:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.answer, args=(connection, response), daemon=True).start()

    def answer(self, connection, response):
        request = connection.recv(1 << 16).decode()
        head, _, body = request.partition("\r\n\r\n")
        length = [line for line in head.split("\r\n") if line.lower().startswith("content-length:")]
        while length and len(body) < int(length[0].split(":")[1]):
            body += connection.recv(1 << 16).decode()
        self.requests.append(f"{head}\r\n\r\n{body}")
        if response is None:
            time.sleep(60)
        connection.sendall(response)
        connection.close()


def whole(status, body, *headers):
    text = json.dumps(body).encode()
    head = [f"HTTP/1.1 {status} X", f"Content-Length: {len(text)}", "Connection: close", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + text


def events(*texts):
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + "".join(texts).encode()


def event(id, text):
    view = json.dumps({"type": "custom", "data": text, "run": "1"}, ensure_ascii=False)
    return f"id: {id}\nevent: custom\ndata: {view}\n\n"


def fault(status):
    return "event: problem\ndata: %s\n\n" % json.dumps({"status": status, "detail": "the store", "type": "x"})


def problem(status, *headers, type="about:blank"):
    return whole(status, {"detail": "no", "type": type}, *headers)


def refused(action, kind):
    try:
        action()
    except kind as error:
        return error
    raise AssertionError("it was not refused")


END = b"HTTP/1.1 204 No Content\r\n\r\n"
LOST = b""
NOW = {"run": {"id": "1", "status": "running"}, "end": None, "questions": []}

# Another server, to which this one redirects, does not learn the key.
stranger = Scripted(whole(200, []))
refused_or_not = Client(Scripted(whole(302, "", f"Location: {stranger.url}/teams")).url, "hunter2").teams()
assert refused_or_not == [] and "hunter2" not in stranger.requests[0], stranger.requests

# A stream goes on after a passing fault of the store and of a proxy, a cut within a character, and a sign of life alone.
cut = events(event(2, "zwei"), event(3, "drüben")).split("ü".encode())[0] + "ü".encode()[:1]
server = Scripted(events(event(1, "one \u2028 \u2029")), events(fault(503)), problem(502), cut, events(":\n\n"), events(event(3, "3")), END)
came = list(Client(server.url, max_failures=3).run("1").events())
assert [(event.id, event.data) for event in came] == [("1", "one \u2028 \u2029"), ("2", "zwei"), ("3", "3")], came
resumed = [[line for line in request.split("\r\n") if line.startswith("Last-Event-Id")] for request in server.requests]
assert resumed == [[]] + [["Last-Event-Id: 1"]] * 3 + [["Last-Event-Id: 2"]] * 2 + [["Last-Event-Id: 3"]], resumed

# A stream that worked for its time is no failed connection; one that ends at once or tells of a fault each time is.
quiet = [events(":\n\n")] * 3
refused(lambda: list(Client(Scripted(*quiet).url, max_failures=2).run("1").events()), ConnectionError)
ghostlight_client._WORKED = 0.0
assert list(Client(Scripted(*quiet, END).url, max_failures=2).run("1").events()) == []
faulty = Client(Scripted(*[events(fault(503))] * 3).url, max_failures=2)
assert refused(lambda: list(faulty.run("1").events()), Problem).status == 503
assert refused(lambda: list(Client(Scripted(events(fault(404))).url).run("1").events()), Problem).status == 404

# A question that has the answer after a lost response is answered; one that had it before is not, nor one that is closed.
asked = [{"run": "1", "operation": "0.0.1", "question": {"kind": "text", "prompt": "?"}}]
answered = problem(409, type="urn:ghostlight:problem:answered")
(question,) = Client(Scripted(whole(200, asked), LOST, answered).url).questions()
question.answer("yes")
for first, second in [(problem(503), answered), (LOST, problem(409, type="urn:ghostlight:problem:conflict"))]:
    (question,) = Client(Scripted(whole(200, asked), first, second).url).questions()
    assert refused(lambda: question.answer("yes"), Problem).status == 409

# The time of a wait holds against a silent server, one that asks for patience, and a run that goes on; no turn is sent again.
for responses in [[None], [problem(503, "Retry-After: 50")], [whole(200, NOW)] * 9]:
    server = Scripted(whole(202, NOW), *responses)
    turn = Client(server.url).session("desk", "1").send("hello")
    began = time.monotonic()
    refused(lambda: turn.wait(0.4), TimeoutError)
    assert time.monotonic() - began < 3
    assert [request.split(" ")[0] for request in server.requests].count("POST") == 1
