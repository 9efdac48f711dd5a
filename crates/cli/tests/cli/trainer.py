"""Agent Lightning's own server with rollouts that wait, and a model behind it that adds two numbers as a policy in training would.

    trainer.py N    prints the gateway's address, and for each line of the standard input what a trainer finds there;
                    a number in the line is how many episodes get their last answer, the others wait for it

It needs `agentlightning` 1.0.2 without its dependencies, and `fastapi`, `httpx`, `structlog` and `uvicorn`. The model's tokens
are bytes, and it answers as vLLM does: with the tokens of the prompt and of its answer, and the latter's probabilities.
"""

import asyncio
import json
import logging
import socket
import sys
import types

# The settings are a dictionary here, so what reads them from files is not needed.
stub = types.ModuleType("omegaconf")
stub.DictConfig, stub.OmegaConf = dict, types.SimpleNamespace(is_config=lambda config: False)
sys.modules["omegaconf"] = stub

import fastapi  # noqa: E402
import httpx  # noqa: E402
import structlog  # noqa: E402
import uvicorn  # noqa: E402
from agentlightning.server.app import create_app  # noqa: E402

structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
model = fastapi.FastAPI()
most, answered, rounds = float("inf"), set(), 0  # the episodes that may be answered, those that are, and the lines with a number


async def turn_of(episode):
    """Waits until an episode may have its last answer. A call from an earlier round, whose runner was killed, takes no place."""
    begun = rounds
    while episode not in answered and begun == rounds:
        if len(answered) < most:
            answered.add(episode)
        else:
            await asyncio.sleep(0.01)


@model.post("/v1/chat/completions")
async def complete(request: fastapi.Request):
    asked = await request.json()
    assert asked["model"] == "policy" and asked["return_token_ids"] is True, asked
    await asyncio.sleep(0.01)
    messages = asked["messages"]
    question = next(said["content"] for said in messages if said["role"] == "user")
    a, b = (int(word) for word in question.rstrip("?").split(" ")[2::2])
    message = {"role": "assistant", "content": None}
    if messages[-1]["role"] == "tool":
        await turn_of(a)
        sum = int(float(messages[-1]["content"]))
        # It has not learned yet to repeat what it reads.
        message["content"] = text = f"The sum is {sum + 1 if a % 4 == 0 else sum}"
    else:
        function = {"name": "calculator", "arguments": json.dumps({"expression": f"{a} + {b}"})}
        message["tool_calls"] = [{"id": f"call-{a}", "type": "function", "function": function}]
        text = json.dumps(function)
    tokens, prompt = list(text.encode()), list(json.dumps(messages).encode())
    choice = {"index": 0, "message": message, "token_ids": tokens, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
    if asked.get("logprobs"):
        choice["logprobs"] = {"content": [{"token": chr(token), "logprob": -0.5, "bytes": [token]} for token in tokens]}
    usage = {"prompt_tokens": len(prompt), "completion_tokens": len(tokens), "total_tokens": len(prompt) + len(tokens)}
    return {"id": "c", "object": "chat.completion", "model": "policy", "prompt_token_ids": prompt, "choices": [choice], "usage": usage}


async def serve(app):
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_keep_alive=120))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    while not server.started:
        await asyncio.sleep(0.01)
    return f"http://127.0.0.1:{listening.getsockname()[1]}", serving


async def found(client):
    """What a trainer finds: the rollouts that ended, in their order, with their calls as tokens and their rewards."""
    page = (await client.get("/api/rollouts/terminal")).json()
    ended = []
    for item in page["items"]:
        at = f"/api/rollouts/{item['rollout_id']}/events"
        events = (await client.get(at, params={"format": "triplet"})).json()
        of = lambda kind: [event["data"] for event in events if event["event_type"] == kind]
        calls = [
            {
                "prompt": bytes(call["prompt_token_ids"]).decode(),
                "response": bytes(call["response_token_ids"]).decode(),
                "logprobs": call["response_log_probs"] and len(call["response_log_probs"]),
            }
            for call in of("model_request")
        ]
        asked = len((await client.get(at, params={"event_type": "model_request"})).json())
        ended.append(item | {"calls": calls, "asked": asked, "rewards": [reward["value"] for reward in of("reward")]})
    return ended


async def main(count):
    global most, rounds
    proxy = {"model_name": "policy", "include_log_probs": True, "train": {"temperature": 1}, "val": {"temperature": 0.7}}
    behind, _ = await serve(model)
    address, _ = await serve(create_app({"key": "", "default_proxy": proxy}))
    async with httpx.AsyncClient(base_url=address, timeout=60) as client:
        (await client.post("/api/models", json=[{"model": "policy", "endpoint": f"{behind}/v1"}])).raise_for_status()
        waiting = [
            {
                "rollout_id": f"episode-{n}",
                "input": {"input": f"What is {n} + {2 * n}?", "expected": 3 * n},
                "is_train": n % 10 != 0,
            }
            for n in range(count)
        ]
        (await client.post("/api/rollouts", json=waiting)).raise_for_status()
        print(address, flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            if line.strip():
                most, rounds = int(line), rounds + 1
            print(json.dumps(await found(client)), flush=True)


asyncio.run(main(int(sys.argv[1])))
