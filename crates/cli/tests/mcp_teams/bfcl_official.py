"""Compares the verdicts of `bfcl_suite.py` with the official checker's, on the expected calls and on mutated ones.

    bfcl_official.py MUTATED CATEGORY...    so many mutations of each entry
"""

import inspect
import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4] / "examples/evals/benchmarks"))
import bfcl_suite as ours  # noqa: E402
from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_checker, multi_turn_utils  # noqa: E402

draw = random.Random(7)


def written(call):
    tool, named, places = call
    return f"{tool}({', '.join([repr(one) for one in places] + [f'{key}={value!r}' for key, value in named.items()])})"


def other(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    return value + "x" if isinstance(value, str) else []


def mutated(turns, tools):
    turns = [[(tool, dict(named), list(places)) for tool, named, places in turn] for turn in turns]
    full = [number for number, turn in enumerate(turns) if turn]
    if not full:
        return turns
    number = draw.choice(full)
    turn, kind = turns[number], draw.randrange(9)
    at = draw.randrange(len(turn))
    tool, named, places = turn[at]
    if kind == 0:
        del turn[at]
    elif kind == 1:
        turn.insert(at, turn[at])
    elif kind == 2:
        turn.clear()
    elif kind == 3:
        draw.shuffle(turn)
    elif kind == 4 and named:
        key = draw.choice(list(named))
        named[key] = other(named[key])
    elif kind == 5 and named:
        del named[draw.choice(list(named))]
    elif kind == 6:
        turn.insert(at, (draw.choice(tools), {}, []))
    elif kind == 7:
        turn[at] = ("no_such_tool", named, places)
    elif kind == 8 and number + 1 < len(turns):
        turns[number + 1].insert(0, turn.pop(at))
    return turns


def official(entry, truth, turns, category):
    # It keeps the worlds of earlier verdicts by their names.
    for name in [name for name in vars(multi_turn_utils) if name.endswith("_instance")]:
        del vars(multi_turn_utils)[name]
    steps = [[[written(call) for call in turn]] if turn else [] for turn in turns]
    return multi_turn_checker.multi_turn_checker(steps, truth, entry, category, "m")["valid"]


def of_us(entry, truth, turns):
    methods = ours.World(entry).methods

    def named(call):
        """Calls of models name their arguments."""
        tool, arguments, places = call
        if places and tool in methods:
            try:
                arguments = dict(inspect.signature(methods[tool]).bind_partial(*places, **arguments).arguments)
            except TypeError:
                pass
        return tool, arguments

    return ours.is_right(entry, truth, [[named(call) for call in turn] for turn in turns])


count = {"gold": 0, "right": 0, "wrong": 0, "differ": []}
for category in sys.argv[2:]:
    suite = ours.Suite(category)
    tools = [tool["name"] for tool in suite.tools()]
    for name, entry in suite.entries.items():
        truth = suite.truth[name]
        gold = [[ours.expected(text) for text in turn] for turn in truth]
        for number in range(int(sys.argv[1]) + 1):
            turns = mutated(gold, tools) if number else gold
            said, is_right = official(entry, truth, turns, category), of_us(entry, truth, turns)
            count["right" if said else "wrong"] += 1
            count["gold"] += not number and is_right
            if said != is_right:
                count["differ"].append([name, number])
print(json.dumps(count))
