"""Games in a household as an evaluation: it writes the files, serves the tools, and says how far a game came.

    household_suite.py write WORLD FOLDER    writes WORLD.yaml, its team and its samples
    household_suite.py serve WORLD           serves the tools over standard streams (MCP), with a game for each session
    household_suite.py score WORLD           reads a cell as JSON and prints its score, from 0 to 1

A world is one of TextWorldExpress (`twc`, which is to tidy up by common sense, `cookingworld`, `coin`, `sorting` and others) or
`scienceworld`, whose 30 kinds of tasks are played in a house with a kitchen, a workshop and a greenhouse. `--games N` says how
many games are written (of `scienceworld`, how many variations of each kind), `--from N` with which seed they begin
(TextWorldExpress trains below 10000, and tests from 20000 on), `--kinds A,B` which kinds of tasks, and `--gold` adds the
benchmark's own solutions. Five variants are compared: `base`, `react`, a tree of goals, and `base` and the tree with a memory that
all games share. It needs Java, `py4j`, and `textworld-express` 1.1.0 or `scienceworld` 1.2.3 without their dependencies.
"""

import argparse
import json
import os
import re
import sys
from pathlib import Path

import worlds

SCIENCE = "scienceworld"
# The last line of each result, which is all that is scored.
STANDING = re.compile(r"\[score (\d\.\d+)(, the game is over)?\]$")


class TextWorld:
    """The games of TextWorldExpress."""

    def __init__(self, name):
        from textworld_express import TextWorldExpressEnv

        self.name, self.environment = name, TextWorldExpressEnv()

    def names(self, given):
        return [f"{self.name}-{seed}" for seed in range(given.first, given.first + given.games)]

    def begin(self, name, gold=False):
        """A game, its first text, and the way to its end where that is asked for."""
        seed = int(name.rpartition("-")[2])
        game = self.environment._gateway.jvm.textworldexpress.runtime.PythonInterface()
        fault = game.load(self.name, "")
        if fault:
            raise ValueError(fault)
        fold = "train" if seed < 10_000 else "dev" if seed < 20_000 else "test"
        seen = json.loads(game.generateNewGameJSON(seed, fold, gold))
        if "observation" not in seen:
            raise ValueError(f"there is no game {name}: {seen}")
        text = f"{game.getTaskDescription()}\n\n{seen['observation']}"
        return [game, seen], text, list(game.getGoldActionSequence()) if gold else []

    @staticmethod
    def act(world, action):
        world[1] = json.loads(world[0].stepJSON(action))
        return world[1]["observation"]

    @staticmethod
    def standing(world):
        seen = world[1]
        return seen["score"], seen["tasksuccess"] or seen["taskfailure"]

    @staticmethod
    def actions(world):
        return "\n".join(world[1]["validActions"])


class Science:
    """The tasks of ScienceWorld."""

    def __init__(self, _):
        from scienceworld import ScienceWorldEnv

        self.environment = ScienceWorldEnv()

    def names(self, given):
        kinds = given.kinds.split(",") if given.kinds else self.environment.get_task_names()
        return [f"{kind}-{number}" for kind in kinds for number in range(given.first, given.first + given.games)]

    def begin(self, name, gold=False):
        kind, _, number = name.rpartition("-")
        game = self.environment._gateway.jvm.scienceworld.runtime.pythonapi.PythonInterface()
        game.load(kind, int(number), "", gold)
        game.reset()
        text = f"{game.getTaskDescription()}\n\n{game.step('look around')}"
        return game, text, list(game.getGoldActionSequence()) if gold else []

    @staticmethod
    def act(world, action):
        return world.step(action)

    @staticmethod
    def standing(world):
        return world.getScore(), world.getCompleted()

    @staticmethod
    def actions(world):
        return f"{'; '.join(world.getPossibleActions())}\n\nOBJ is one of: {'; '.join(world.getPossibleObjects())}"


TOOLS = [
    {
        "name": "act",
        "description": "Does something in the game, and tells what is seen then.",
        "inputSchema": {"type": "object", "properties": {"action": {"type": "string"}}, "required": ["action"]},
    },
    {"name": "actions", "description": "Lists what can be done now.", "inputSchema": {"type": "object", "properties": {}}},
]


def run(games, world, tool, arguments):
    """The text of a call's result, and whether it is an error."""
    if tool == "actions":
        return games.actions(world), False
    if games.standing(world)[1]:
        text, failed = "There is nothing left to do.", True
    else:
        text, failed = games.act(world, str(arguments.get("action", ""))).strip(), False
    score, is_over = games.standing(world)
    # A task that was done wrongly has a score below 0 in ScienceWorld.
    return f"{text}\n\n[score {max(0.0, score):.3f}{', the game is over' if is_over else ''}]", failed


def score(cell):
    """How far the game came: what the world said last."""
    found = [STANDING.search(call.get("result", "")) for call in cell["calls"] if call["tool"] == "act"]
    return max((float(one[1]) for one in found[-1:] if one), default=0.0)


def samples(games, given):
    for name in games.names(given):
        _, text, gold = games.begin(name, given.gold)
        told = {"metadata": {"gold": gold}} if given.gold else {}
        yield {"id": name, "input": text, "cluster": name.rpartition("-")[0] if given.world == SCIENCE else name} | told


def main():
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("act", choices=["write", "serve", "score"])
    reader.add_argument("world")
    reader.add_argument("folder", nargs="?")
    reader.add_argument("--games", type=int, default=1)
    reader.add_argument("--from", type=int, default=0, dest="first")
    reader.add_argument("--kinds")
    reader.add_argument("--gold", action="store_true")
    reader.add_argument("--state", help="the folder in which `serve` keeps the calls of each session")
    given = reader.parse_args()
    if given.act == "score":
        return worlds.score(score)
    games = (Science if given.world == SCIENCE else TextWorld)(given.world)
    if given.act == "serve":
        begin = lambda session: games.begin(session.split("/")[2])[0]
        return worlds.serve(given.world, TOOLS, begin, lambda *call: run(games, *call), given.state)
    me = [sys.executable, os.path.abspath(__file__)]
    served = {"command": [*me, "serve", given.world], "effects": {"actions": "read"}}
    told = "Play the game to its end, by your tools. Each action is one line, and `actions` lists what can be done."
    team = {
        "name": given.world,
        "mcp": {"world": served},
        "agent": {"name": "player", "instructions": told, "tools": ["world"], "max_steps": 200},
    }
    scorer = {"command": {"name": "score", "run": [*me, "score", given.world], "timeout_s": 60}}
    memory = {"memory": {"team": "write", "learn": True, "episodes": True}}
    tree = {"behavior": {"name": "reactree", "max_total_decisions": 400}}
    variants = {"base": {}, "react": {"behavior": "react"}, "memory": memory, "tree": tree, "tree_with_memory": tree | memory}
    variants = {name: {"agent": change} if change else {} for name, change in variants.items()}
    evaluation = {"evaluation": given.world, "variants": variants, "scorers": [scorer]}
    worlds.write(Path(given.folder), given.world, team, evaluation, samples(games, given))


if __name__ == "__main__":
    main()
