"""The official clients of OpenAI and Anthropic against the server whose address is the first argument."""

import sys

import anthropic
import openai

base, key = sys.argv[1], sys.argv[2]
client = openai.OpenAI(base_url=f"{base}/v1", api_key=key, max_retries=0)
claude = anthropic.Anthropic(base_url=base, api_key=key, max_retries=0)

# Models.
assert [model.id for model in client.models.list()] == ["desk"]
assert client.models.retrieve("desk").id == "desk"
assert [model.id for model in claude.models.list()] == ["desk"]

# Chat completions, whole and as a stream.
say = [{"role": "user", "content": "well"}]
done = client.chat.completions.create(model="desk", messages=say)
assert done.choices[0].message.content == "did well", done
assert done.choices[0].finish_reason == "stop"
chunks = list(
    client.chat.completions.create(
        model="desk", messages=say, stream=True, stream_options={"include_usage": True}
    )
)
text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
assert text == "did well", chunks
assert chunks[-1].usage is not None and chunks[-2].choices[0].finish_reason == "stop"

# A conversation that the client keeps comes to the agent with what is said now.
told = client.chat.completions.create(
    model="desk",
    messages=[
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "did one"},
        {"role": "user", "content": [{"type": "text", "text": "two"}]},
    ],
)
assert "be brief" in told.choices[0].message.content, told
assert told.choices[0].message.content.endswith("two"), told

# A session that the team keeps: its question is the answer, and what is said next answers it.
session = {"X-Session-Id": "kept"}
ask = [{"role": "user", "content": "ask your name?"}]
asked = client.chat.completions.create(model="desk", messages=ask, extra_headers=session)
assert asked.choices[0].message.content == "your name?", asked
ada = [{"role": "user", "content": "Ada"}]
answered = client.chat.completions.create(model="desk", messages=ada, extra_headers=session)
assert answered.choices[0].message.content == 'answered "Ada"', answered

# The same request under one key is one run.
once = {"Idempotency-Key": "once"}
same = {
    client.chat.completions.create(model="desk", messages=say, extra_headers=once).id
    for _ in range(3)
}
assert len(same) == 1, same

# Responses: whole, as a stream, the next of a session, later, cancelled.
first = client.responses.create(model="desk", input="well")
assert first.output_text == "did well" and first.status == "completed", first
second = client.responses.create(model="desk", input="so", previous_response_id=first.id)
assert second.output_text == "did so", second
assert second.conversation.id == first.conversation.id
again = client.responses.retrieve(first.id)
assert again.output_text == "did well", again
events = list(client.responses.create(model="desk", input="well", stream=True))
assert [event.sequence_number for event in events] == list(range(len(events)))
assert events[0].type == "response.created" and events[-1].type == "response.completed"
assert events[-1].response.output_text == "did well"
with client.responses.stream(model="desk", input="well") as stream:
    assert stream.get_final_response().output_text == "did well"
late = client.responses.create(model="desk", input="hang", background=True)
assert late.status == "in_progress", late
assert client.responses.cancel(late.id).status == "cancelled"

# Messages, whole and as a stream.
turn = dict(model="desk", max_tokens=64, messages=say)
message = claude.messages.create(**turn)
assert message.content[0].text == "did well" and message.stop_reason == "end_turn", message
with claude.messages.stream(**turn) as stream:
    assert "".join(stream.text_stream) == "did well"
    assert stream.get_final_message().stop_reason == "end_turn"

# Refusals are the clients' own exceptions.
def refused(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind}")


other = openai.OpenAI(base_url=f"{base}/v1", api_key="glk_wrong", max_retries=0)
refused(openai.AuthenticationError, lambda: other.models.list())
stranger = anthropic.Anthropic(base_url=base, api_key="glk_wrong", max_retries=0)
refused(anthropic.AuthenticationError, lambda: stranger.messages.create(**turn))
missing = refused(
    openai.NotFoundError,
    lambda: client.chat.completions.create(model="secret", messages=say),
)
assert "secret" in missing.message and missing.code == "not-found", missing
refused(anthropic.NotFoundError, lambda: claude.messages.create(**{**turn, "model": "none"}))
# Tools of the client: the agent's call comes to the client, and goes on with what the client answers.
schema = {"type": "object", "properties": {"place": {"type": "integer"}}}
tool = {"type": "function", "function": {"name": "look", "parameters": schema}}
talk = [{"role": "user", "content": "call look"}]
asked = client.chat.completions.create(model="desk", messages=talk, tools=[tool]).choices[0]
assert asked.finish_reason == "tool_calls", asked
[call] = asked.message.tool_calls
assert call.function.name == "look" and call.function.arguments == '{"place":0}', call
talk += [asked.message, {"role": "tool", "tool_call_id": call.id, "content": "a door"}]
answered = client.chat.completions.create(model="desk", messages=talk, tools=[tool]).choices[0]
assert answered.message.content == "Success a door", answered

talk = [{"role": "user", "content": "call look"}]
offered = {**turn, "messages": talk, "tools": [{"name": "look", "input_schema": schema}]}
asked = claude.messages.create(**offered)
assert asked.stop_reason == "tool_use", asked
[use] = [part for part in asked.content if part.type == "tool_use"]
assert use.name == "look" and use.input == {"place": 0}, use
result = {"type": "tool_result", "tool_use_id": use.id, "content": "a window"}
talk += [{"role": "assistant", "content": asked.content}, {"role": "user", "content": [result]}]
answered = claude.messages.create(**offered)
assert answered.content[0].text == "Success a window", answered

failed = refused(
    openai.InternalServerError,
    lambda: client.chat.completions.create(
        model="desk", messages=[{"role": "user", "content": "fail on purpose"}]
    ),
)
assert "on purpose" in failed.message, failed
refused(openai.NotFoundError, lambda: client.responses.retrieve("resp_none"))
print("all as promised")
