"""The multi-turn categories of BFCL v4 as an evaluation: it writes the files, serves the tools, and checks what was called.

    bfcl_suite.py write CATEGORY FOLDER    writes CATEGORY.yaml, its team and its samples
    bfcl_suite.py serve CATEGORY           serves the tools over standard streams (MCP), with a world for each session
    bfcl_suite.py score CATEGORY           reads a cell as JSON and prints its score

A category is `base`, `miss_param` or `long_context`; `miss_func` is checked, and not written, because its conversations hold a
tool back until a later turn. The worlds (a file system, a car, a stock broker and five more) are the package's own; whether a
cell is right is decided here, by the benchmark's rule: after each turn the worlds must be as after the expected calls, and
what these say must have been said. The benchmark offers a conversation the tools of its own worlds, and a written suite those
of all: so its share of right cells is no entry for the leaderboard. It needs `bfcl-eval` 2026.3.23 without its
dependencies, and `mpmath`.
"""

import argparse
import ast
import copy
import functools
import importlib
import importlib.util
import json
import os
import re
import sys
from pathlib import Path

import worlds

# What the package refuses to call.
REFUSED = {"kill", "exit", "quit", "remove", "unlink", "popen", "Popen", "run"}
# Kinds of values that JSON Schema calls otherwise.
KINDS = {"dict": "object", "float": "number", "tuple": "array", "list": "array"}


@functools.cache
def data():
    return Path(importlib.util.find_spec("bfcl_eval").origin).parent / "data"


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


@functools.cache
def backends():
    return importlib.import_module("bfcl_eval.constants.executable_backend_config")


class World:
    """The instances of a task's classes."""

    def __init__(self, entry):
        self.instances, self.methods = {}, {}
        long = "long_context" in entry["id"]
        for name in entry["involved_classes"]:
            made = getattr(importlib.import_module(backends().CLASS_FILE_PATH_MAPPING[name]), name)()
            if name not in backends().STATELESS_CLASSES:
                made._load_scenario(copy.deepcopy(entry["initial_config"].get(name, {})), long_context=long)
            self.instances[name] = made
            for method in dir(made):
                if not method.startswith("_") and callable(getattr(made, method)):
                    self.methods[method] = getattr(made, method)

    def run(self, tool, arguments, places=()):
        """The text of a call's result, and whether it is an error."""
        try:
            if tool in REFUSED:
                raise PermissionError(f"Function call {tool} is not allowed.")
            if tool not in self.methods:
                raise NameError(f"name '{tool}' is not defined")
            said = self.methods[tool](*places, **arguments)
        except Exception as error:
            return f"Error during execution: {error}", True
        if isinstance(said, dict):
            try:
                said = json.dumps(said)
            except TypeError:
                pass
        return str(said), False

    def state(self, name):
        return {key: value for key, value in vars(self.instances[name]).items() if not key.startswith("_")}


def expected(text):
    """A call of the benchmark's solutions, which are Python."""
    call = ast.parse(text.strip(), mode="eval").body
    named = {one.arg: ast.literal_eval(one.value) for one in call.keywords}
    return call.func.id, named, [ast.literal_eval(one) for one in call.args]


def is_right(entry, truth, turns):
    """Whether these calls, turn by turn, do what the expected ones do."""
    ours, theirs, said = World(entry), World(entry), []
    for number, wanted in enumerate(truth):
        made = turns[number] if number < len(turns) else []
        said += [ours.run(tool, arguments)[0] for tool, arguments in made]
        must = [theirs.run(*expected(text))[0] for text in wanted]
        if not wanted:
            continue
        if not made or any(ours.state(name) != theirs.state(name) for name in theirs.instances):
            return False
        left = list(said)
        for text in must:
            if text not in left:
                return False
            left.remove(text)
    return True


class Suite:
    def __init__(self, category):
        name = f"BFCL_v4_multi_turn_{category}.json"
        self.entries = {entry["id"]: entry for entry in lines(data() / name)}
        self.truth = {entry["id"]: entry["ground_truth"] for entry in lines(data() / "possible_answer" / name)}

    def tools(self):
        """All tools of the category, each once."""
        names = sorted({name for entry in self.entries.values() for name in entry["involved_classes"]})
        files = [backends().MULTI_TURN_FUNC_DOC_FILE_MAPPING[name] for name in names]
        found = {tool["name"]: tool for file in files for tool in lines(data() / "multi_turn_func_doc" / file)}
        shown = lambda tool: {"name": tool["name"], "description": tool["description"], "inputSchema": schema(tool["parameters"])}
        return [shown(tool) for tool in found.values()]

    def samples(self):
        for name, entry in self.entries.items():
            turns = [" ".join(said["content"] for said in turn) for turn in entry["question"]]
            yield {"id": name, "turns": turns, "metadata": {"classes": entry["involved_classes"]}}

    def score(self, cell):
        entry = self.entries[cell["sample"]["id"]]
        turns = [[] for _ in entry["question"]]
        for call in cell["calls"]:
            turns[call["turn"] - 1].append((call["tool"], call["arguments"]))
        return is_right(entry, self.truth[entry["id"]], turns)


def schema(described):
    """JSON Schema of the benchmark's own kinds."""
    if isinstance(described, list):
        return [schema(one) for one in described]
    if not isinstance(described, dict):
        return described
    kept = {key: schema(value) for key, value in described.items()}
    kind = kept.get("type")
    if kind == "any":
        del kept["type"]
    elif isinstance(kind, str):
        kept["type"] = KINDS.get(kind, kind)
    return kept


def main():
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("act", choices=["write", "serve", "score"])
    reader.add_argument("category", choices=["base", "miss_func", "miss_param", "long_context"])
    reader.add_argument("folder", nargs="?")
    reader.add_argument("--state", help="the folder in which `serve` keeps the calls of each session")
    given = reader.parse_args()
    if given.act == "write" and given.category == "miss_func":
        reader.error("miss_func is not written: its conversations hold a tool back until a later turn")
    suite = Suite(given.category)
    if given.act == "score":
        worlds.score(suite.score)
    elif given.act == "serve":
        begin = lambda session: World(suite.entries[re.search(r"multi_turn_\w+_\d+", session).group()])
        worlds.serve("bfcl", suite.tools(), begin, World.run, given.state)
    else:
        me = [sys.executable, os.path.abspath(__file__)]
        team = {
            "name": f"bfcl-{given.category}",
            "mcp": {"world": {"command": [*me, "serve", given.category]}},
            "agent": {"name": "assistant", "instructions": "Do what the user asks, by your tools.", "tools": ["world"], "max_steps": 20},
        }
        checker = {"command": {"name": "right", "run": [*me, "score", given.category], "timeout_ms": 60_000}}
        evaluation = {"evaluation": f"bfcl-{given.category}", "scorers": [checker]}
        worlds.write(Path(given.folder), given.category, team, evaluation, suite.samples())


if __name__ == "__main__":
    main()
