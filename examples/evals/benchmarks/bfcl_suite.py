"""The multi-turn and memory categories of BFCL v4 as an evaluation: it writes the files, serves the tools, and checks what was
called.

    bfcl_suite.py write CATEGORY FOLDER    writes CATEGORY.yaml, its team and its samples
    bfcl_suite.py serve CATEGORY           serves the tools over standard streams (MCP), with a world for each session
    bfcl_suite.py score CATEGORY           reads a cell as JSON and prints its score

A category is `base`, `miss_param`, `long_context`, `memory_kv`, `memory_vector`, `memory_rec_sum` or `memory_own`; `miss_func` is
checked, and not written, because its conversations hold a tool back until a later turn. Of a memory two evaluations are written. First `CATEGORY-before.yaml`
has the conversations in which the agent may keep what it hears, one after the other; then `CATEGORY.yaml` asks for it, with
the memory that they left. In `memory_own` the memory is Ghostlight's own, and each of the five users who speak has a team,
so the files are those of `memory_own-customer` and so on. Where the benchmark shows a part of the memory to the model unasked, it is to be read by a tool here.
The worlds (a file system, a car, a stock broker and five more) are the package's own; whether a
cell is right is decided here, by the benchmark's rule: after each turn the worlds must be as after the expected calls, and
what these say must have been said. The benchmark offers a conversation the tools of its own worlds, and a written suite those
of all: so its share of right cells is no entry for the leaderboard. It needs `bfcl-eval` 2026.3.23 without its
dependencies, and `mpmath`, for `memory_kv` also `rank-bm25`, and for `memory_vector` `numpy` and `sentence-transformers`, which
fetches the weights of `all-MiniLM-L6-v2`.
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
import types
from pathlib import Path

import worlds

CATEGORIES = ["base", "miss_func", "miss_param", "long_context", "memory_kv", "memory_vector", "memory_rec_sum", "memory_own"]
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
        for name in entry["involved_classes"]:
            made = getattr(importlib.import_module(backends().CLASS_FILE_PATH_MAPPING[name]), name)()
            self.load(name, made, entry)
            self.instances[name] = made
            for method in dir(made):
                if not method.startswith("_") and callable(getattr(made, method)):
                    self.methods[method] = getattr(made, method)

    @staticmethod
    def load(name, made, entry):
        if name not in backends().STATELESS_CLASSES:
            begin = copy.deepcopy(entry["initial_config"].get(name, {}))
            made._load_scenario(begin, long_context="long_context" in entry["id"])

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


class Flat:
    """What the benchmark uses of faiss: an index that compares a question with all vectors."""

    def __init__(self, _):
        self.vectors = {}

    def add_with_ids(self, vectors, ids):
        self.vectors |= dict(zip(ids.tolist(), vectors))

    def remove_ids(self, ids):
        for one in ids.tolist():
            del self.vectors[one]

    def reset(self):
        self.vectors.clear()

    def search(self, questions, count):
        near = sorted(((float(questions[0] @ vector), one) for one, vector in self.vectors.items()), reverse=True)[:count]
        return [[score for score, _ in near]], [[one for _, one in near]]


class Memory(World):
    """A memory as earlier conversations left it; what is kept in one of these is there in the next."""

    PARTS = ("core_memory", "archival_memory", "memory")

    def __init__(self, entry, begun, left):
        """`begun` is the file of the memory as it was at the beginning of this session, and `left` that of the latest one."""
        if not begun.exists():
            begun.write_bytes(left.read_bytes() if left.exists() else b"{}")
        self.begin, self.left = json.loads(begun.read_text()), left if "prereq" in entry["id"] else None
        super().__init__(entry)

    def load(self, name, made, entry):
        for part, begun in self.begin.items():
            if hasattr(vars(made)[part], "load_from_snapshot"):
                vars(made)[part].load_from_snapshot(begun)
            else:
                vars(made)[part] = begun

    def run(self, tool, arguments, places=()):
        said = super().run(tool, arguments, places)
        if self.left:
            (made,) = self.instances.values()
            new = self.left.with_suffix(".new")
            parts = {part: value for part, value in vars(made).items() if part in self.PARTS}
            kept = {part: value.export() if hasattr(value, "export") else value for part, value in parts.items()}
            new.write_text(json.dumps(kept))
            new.replace(self.left)
        return said


class MemorySuite:
    """The questions about what was said before, and the conversations in which it was said."""

    def __init__(self, category):
        self.backend = f"MemoryAPI_{category.removeprefix('memory_')}"
        # The package's own files of memories are not used, and what would write them need not be there.
        for name, members in {
            "overrides": {"final": lambda method: method},
            "faiss": {"IndexFlatIP": lambda _: None, "IndexIDMap": Flat},
            "bfcl_eval.utils": dict.fromkeys(
                ["get_directory_structure_by_id", "is_first_memory_prereq_entry", "is_memory_prereq"]
            ),
        }.items():
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__dict__.update(members)
        before = sorted((data() / "memory_prereq_conversation").glob("*.json"))
        self.before = [entry for path in before for entry in lines(path)]
        self.questions = lines(data() / "BFCL_v4_memory.json")
        self.truth = {one["id"]: one for one in lines(data() / "possible_answer" / "BFCL_v4_memory.json")}
        self.entries = {one["id"]: one | {"involved_classes": [self.backend]} for one in self.before + self.questions}

    def tools(self):
        return shown(data() / "multi_turn_func_doc" / backends().MULTI_TURN_FUNC_DOC_FILE_MAPPING[self.backend])

    def begin(self, session, state):
        team, _, sample, *_ = session.split("/")
        entry = self.entries[sample]
        folder, plain = Path(state), re.sub(r"[^\w+-]", "_", session)
        return Memory(entry, folder / f"{plain}-begun.json", folder / f"{team}-{entry['scenario']}-left.json")

    @staticmethod
    def said(entry):
        settings = importlib.import_module("bfcl_eval.constants.default_prompts").MEMORY_AGENT_SETTINGS
        turns = [" ".join(said["content"] for said in turn) for turn in entry["question"]]
        return [f"{settings[entry['scenario']]}\n\n{turns[0]}", *turns[1:]]

    def samples(self):
        for entry in self.questions:
            truth = self.truth[entry["id"]]
            told = {"category": "memory", "source": truth["source"]}
            yield {
                "id": entry["id"],
                "input": self.said(entry)[0],
                "expected": truth["ground_truth"],
                "tags": [entry["scenario"]],
                "metadata": told,
            }

    def samples_before(self):
        for entry in self.before:
            yield {"id": entry["id"], "turns": self.said(entry), "tags": [entry["scenario"]]}


def shown(*files):
    """The tools of these files, each once."""
    found = {tool["name"]: tool for file in files for tool in lines(file)}
    shown = lambda tool: {"name": tool["name"], "description": tool["description"], "inputSchema": schema(tool["parameters"])}
    return [shown(tool) for tool in found.values()]


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
        return shown(*(data() / "multi_turn_func_doc" / file for file in files))

    def begin(self, session, _):
        return World(self.entries[session.split("/")[2]])

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
    reader.add_argument("category", choices=CATEGORIES)
    reader.add_argument("folder", nargs="?")
    reader.add_argument("--state", help="the folder in which `serve` keeps the calls of each session")
    given = reader.parse_args()
    category, is_memory = given.category, given.category.startswith("memory")
    if given.act == "write" and category == "miss_func":
        reader.error("miss_func is not written: its conversations hold a tool back until a later turn")
    if given.act == "score" and is_memory:
        reader.error("what is remembered is scored by `bfcl: {}`")
    suite = MemorySuite(category) if is_memory else Suite(category)
    if category == "memory_own":
        return write_own(Path(given.folder), suite)
    if given.act == "score":
        return worlds.score(suite.score)
    if given.act == "serve":
        begin = lambda session: suite.begin(session, given.state)
        return worlds.serve("bfcl", suite.tools(), begin, lambda world, *call: world.run(*call), given.state)
    me, folder = [sys.executable, os.path.abspath(__file__)], Path(given.folder)
    told = "Do what the user asks, by your tools."
    if is_memory:
        told = "Your tools are a memory that lasts from one conversation to the next. Keep what matters, and look there before you answer."
    team = {
        "name": f"bfcl-{category}",
        "mcp": {"world": {"command": [*me, "serve", category]}},
        "agent": {"name": "assistant", "instructions": told, "tools": ["world"], "max_steps": 20},
    }
    checker = {"command": {"name": "right", "run": [*me, "score", category], "timeout_s": 60}}
    evaluation = {"evaluation": f"bfcl-{category}", "scorers": [{"bfcl": {}} if is_memory else checker]}
    worlds.write(folder, category, team, evaluation, suite.samples())
    if is_memory:
        write_before(folder, category, evaluation, suite.samples_before())


def write_before(folder, name, evaluation, samples):
    """Writes the evaluation of the conversations in which the agent may keep what it hears."""
    before = evaluation | {
        "evaluation": f"{evaluation['evaluation']}-before",
        "data": [{"file": f"{name}-before.jsonl"}],
        "concurrency": 1,
        "scorers": [{"consumed": {"tool_calls": 1_000}}],
    }
    (folder / f"{name}-before.yaml").write_text(json.dumps(before, indent=1) + "\n")
    (folder / f"{name}-before.jsonl").write_text("".join(json.dumps(one) + "\n" for one in samples))


def write_own(folder, suite):
    """Writes the questions of each user, for a team with a memory of its own."""
    for user in sorted({entry["scenario"] for entry in suite.questions}):
        name = f"memory_own-{user}"
        agent = {"name": "assistant", "instructions": "Answer the user, and keep what matters.", "max_steps": 20}
        agent["memory"] = {"team": "write", "session": "none", "recall": 10, "extract": True}
        evaluation = {"evaluation": f"bfcl-{name}", "scorers": [{"bfcl": {}}]}
        of_user = lambda samples: [sample for sample in samples if sample["tags"] == [user]]
        worlds.write(folder, name, {"name": f"bfcl-{name}", "agent": agent}, evaluation, of_user(suite.samples()))
        write_before(folder, name, evaluation, of_user(suite.samples_before()))


if __name__ == "__main__":
    main()
