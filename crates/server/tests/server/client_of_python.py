"""The client below clients/python against a running server: client_of_python.py SOURCE SERVER FLAKY KEY.

FLAKY is the same server behind a proxy that breaks each connection after some thousand bytes.
"""

import sys

sys.path.insert(0, sys.argv[1])
from ghostlight_client import Client, Problem  # noqa: E402

server, flaky, key = sys.argv[2:]
client = Client(server, key)
breaking = Client(flaky, key)

# A stream that breaks again and again has each recorded event once, and ends with the run.
turn = breaking.session("desk", "talk").send("count 40", id="first")
streamed = [event for event in turn.run.events(previews=False)]
page = client.request("GET", f"/api/v1/runs/{turn.run.id}/events?limit=1000")["events"]
place = lambda event: f"{event['position']}.{event['part']}" if event.get("part") else str(event["position"])
assert [event.id for event in streamed] == [place(event) for event in page]
assert [event.type for event in streamed].count("custom") == 40
assert (streamed[0].type, streamed[-1].type) == ("run_started", "run_ended")
later = [event.id for event in client.run(turn.run.id).events(streamed[9].id)]
assert later == [event.id for event in streamed[10:]]

# Under one id it is one run.
again = client.session("desk", "talk").send("count 40", id="first").wait()
assert (again.run.id, again.answer, again.status) == (turn.run.id, "did count 40", "answered")

# A question, and an approval with its call; the first answer counts.
asked = client.session("desk", "asked").ask("ask name?")
assert not asked.has_ended and asked.questions[0].prompt == "name?"
assert [open.run for open in client.questions()] == [asked.run.id]
asked.questions[0].answer("Ada")
assert asked.wait(30).answer == 'answered "Ada"'
for decide, told in [(lambda asks: asks.approve(), "Success"), (lambda asks: asks.deny("too much"), "too much")]:
    refund = client.session("shop", "refunds").ask("refund")
    (question,) = refund.questions
    assert (question.kind, question.call["name"]) == ("approval", "refund"), question
    decide(question)
    assert told in refund.wait(30).answer, refund.answer

# Sessions: branched, rewound, listed and read.
talk = client.session("desk", "talk")
talk.ask("well")
branch = talk.fork("branch", 1)
assert branch.messages()[-1]["role"] == "assistant" and len(branch.messages()) == 2
talk.rewind(1)
assert len(talk.messages()) == 2
assert {"talk", "branch", "asked"} <= {session["session"]["key"] for session in client.sessions(team="desk", limit=2)}

# A turn that is said to a run which ends without it is answered by the run that takes it.
busy, joined = [client.session("steered", "s").send(text) for text in ("count 300", "well")]
assert joined.run.id == busy.run.id
assert joined.wait(60).answer == "did well" and joined.run.id != busy.run.id
assert busy.wait(60).answer == "did count 300"

# A run that is cancelled, a failed one, and refusals.
hanging = client.session("desk", "hanging").send("hang")
try:
    hanging.wait(1)
    raise AssertionError("it did not hang")
except TimeoutError:
    pass
hanging.run.cancel("enough")
assert hanging.wait(30).status == "cancelled"
assert client.session("desk", "failing").ask("fail badly").error.endswith("failed: badly")
for caller, status in [(client, 404), (Client(server, "no key"), 401)]:
    try:
        caller.run("00000000-0000-7000-8000-000000000000").details()
        raise AssertionError("it was not refused")
    except Problem as problem:
        assert problem.status == status and problem.detail, problem
