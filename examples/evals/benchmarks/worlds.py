"""Tools over standard streams (the Model Context Protocol), with a world for each session.

A call says which session it belongs to where the team's file has `sessions: true` below the server. A world that has a folder
is made again from its calls after a restart.
"""

import json
import re
import shutil
import sys
from pathlib import Path


def serve(name, tools, begin, call, state=None):
    """Serves these tools. `begin(session)` makes a world, and `call(world, tool, arguments)` gives a text and whether it is
    an error."""
    worlds = {}

    def world_of(session):
        kept = Path(state) / (re.sub(r"[^\w+-]", "_", session) + ".jsonl") if state else None
        if session not in worlds:
            worlds[session] = begin(session)
            for line in kept.read_text().splitlines() if kept and kept.exists() else []:
                call(worlds[session], *json.loads(line))
        return worlds[session], kept

    def called(params):
        tool, arguments = params["name"], params.get("arguments", {})
        world, kept = world_of(params["_meta"]["ghostlight/session"])
        if kept:
            with kept.open("a") as file:
                file.write(json.dumps([tool, arguments]) + "\n")
        text, failed = call(world, tool, arguments)
        return {"content": [{"type": "text", "text": text}], "isError": failed}

    begun = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": name, "version": "1"}}
    methods = {
        "initialize": lambda _: begun,
        "ping": lambda _: {},
        "tools/list": lambda _: {"tools": tools},
        "tools/call": called,
    }
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        told, method = {"jsonrpc": "2.0", "id": asked["id"]}, methods.get(asked["method"])
        if method:
            told["result"] = method(asked.get("params", {}))
        else:
            told["error"] = {"code": -32601, "message": f"there is no method {asked['method']}"}
        print(json.dumps(told), flush=True)


def score(judge):
    """Prints a score for each line of the standard input, which is a cell as JSON."""
    for line in sys.stdin:
        cell = json.loads(line)
        cell["calls"] = [call | {"arguments": read(call["arguments"])} for call in cell["calls"]]
        print(json.dumps({"score": float(judge(cell))}), flush=True)


def read(arguments):
    """Arguments as a model wrote them. Those that are no object reached no tool."""
    try:
        read = json.loads(arguments)
    except ValueError:
        read = None
    return read if isinstance(read, dict) else {}


def write(folder, name, team, evaluation, samples):
    """Writes NAME.yaml, NAME-team.yaml and NAME.jsonl, and forgets what was done in the worlds of an earlier suite."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "worlds", ignore_errors=True)
    (folder / "worlds").mkdir()
    if "mcp" in team:
        team["mcp"]["world"] |= {"sessions": True, "pins": f"{folder.resolve()}/{name}-pins.json"}
        team["mcp"]["world"]["command"] += ["--state", f"{folder.resolve()}/worlds"]
    evaluation |= {"team": f"{name}-team.yaml", "data": [{"file": f"{name}.jsonl"}]}
    for file, content in ((f"{name}-team.yaml", team), (f"{name}.yaml", evaluation)):
        (folder / file).write_text(json.dumps(content, indent=1) + "\n")
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in samples))
