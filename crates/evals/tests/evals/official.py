"""Writes verdicts of the official checkers of BFCL and GAIA, one JSON object a line, for the test in `official.rs`.

    pip install --no-deps bfcl-eval==2026.3.23 inspect-evals==0.26.0
    python official.py > verdicts.jsonl

Nothing else is needed: what they import from servers' libraries is replaced. Where `inspect-evals` is absent, GAIA is left out.
It also tells how many verdicts a second BFCL's own checker gives.
"""

import copy
import importlib.util
import json
import pathlib
import random
import re
import string
import sys
import time
import types



def folder(package):
    """The folder in which a package lies, which is not imported."""
    found = importlib.util.find_spec(package)
    return pathlib.Path(found.submodule_search_locations[0]).parent if found else None


bfcl, inspect = folder("bfcl_eval"), folder("inspect_evals")
draw = random.Random(7)


def write(**row):
    print(json.dumps(row))


# The checker asks of a model only whether its names have underscores in the place of dots.
stub = types.ModuleType("bfcl_eval.constants.model_config")
stub.MODEL_CONFIG_MAPPING = {"x": types.SimpleNamespace(underscore_to_dot=False)}
sys.path.insert(0, str(bfcl))
sys.modules["bfcl_eval.constants.model_config"] = stub
from bfcl_eval.constants.enums import Language  # noqa: E402
from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker  # noqa: E402


def first(values):
    """A possible value as a model would give it."""
    for value in values:
        if value == "":
            continue
        if isinstance(value, dict):
            found = {}
            for name, possible in value.items():
                if isinstance(possible, list):
                    chosen = [one for one in possible if one != ""]
                    if chosen:
                        found[name] = chosen[0]
                else:
                    found[name] = possible
            return found
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return [first([one]) for one in value]
        return value
    return None


def gold(truth):
    calls = []
    for answer in truth:
        ((name, possible),) = answer.items()
        arguments = {}
        for parameter, values in possible.items():
            value = first(values)
            if value is not None:
                arguments[parameter] = value
        calls.append({name: arguments})
    return calls


def written(call, functions, language):
    """The call with its values as Java or JavaScript writes them."""
    ((name, arguments),) = call.items()
    function = next(function for function in functions if function["name"] == name)
    details = function["parameters"]["properties"]
    is_java = language == Language.JAVA

    def item(value):
        if isinstance(value, bool):
            return str(value).lower()
        return json.dumps(value) if isinstance(value, (str, list, dict)) else str(value)

    def text(value, kind, items):
        if isinstance(value, list) and is_java:
            listed = ", ".join(item(one) + ("L" if items == "long" else "f" if items == "float" else "") for one in value)
            if kind == "Array":
                return "new Object[]{" + listed + "}"
            if draw.random() < 0.5:
                return "new ArrayList<>(Arrays.asList(" + listed + "))"
            return "new ArrayList<Object>() {{ " + " ".join(f"add({item(one)});" for one in value) + " }}"
        if isinstance(value, dict) and is_java:
            return "new HashMap<String, Object>() {{ " + " ".join(f'put("{key}", {item(one)});' for key, one in value.items()) + " }}"
        if isinstance(value, (list, dict)):
            return json.dumps(value)
        suffix = {"long": "L", "float": "f"}.get(kind, "") if is_java else {"Bigint": "n"}.get(kind, "")
        if isinstance(value, str):
            return draw.choice([value, f'"{value}"', f"'{value}'"]) if not is_java and kind == "String" else value
        return item(value) + suffix

    def kinds(parameter):
        of = details.get(parameter, {})
        return of.get("type"), of.get("items", {}).get("type")

    return {name: {parameter: text(value, *kinds(parameter)) for parameter, value in arguments.items()}}


def changed(value):
    """The same value, changed a little or much."""
    kinds = [str(value), [value], {"k": value}, None, True]
    if isinstance(value, bool):
        kinds += [not value, int(value)]
    elif isinstance(value, int):
        kinds += [value + 1, float(value), float(value) + 0.5]
    elif isinstance(value, float):
        kinds += [value + 1, int(value)]
    elif isinstance(value, str):
        kinds += [value.upper(), value + ".", value.replace(" ", "_"), value + "x", value.replace("'", '"'), ""]
    elif isinstance(value, list):
        kinds += [list(reversed(value)), value[:-1], value + value, []]
        kinds += [[changed(one) for one in value], [str(one) for one in value]]
        kinds += [[float(one) if type(one) is int else one for one in value]]
    elif isinstance(value, dict):
        kinds += [{**value, "extra": 1}, dict(list(value.items())[:-1])]
        kinds += [{name: changed(one) for name, one in value.items()}]
    return draw.choice(kinds)


def mutated(calls):
    calls = copy.deepcopy(calls)
    how = draw.randrange(7)
    if how == 0 or not calls:
        draw.shuffle(calls)
        return calls[:-1] if draw.random() < 0.5 else calls
    if how == 1:
        return calls + [draw.choice(calls)]
    place = draw.randrange(len(calls))
    ((name, arguments),) = calls[place].items()
    if how == 2:
        calls[place] = {name + "s": arguments}
    elif how == 3 and arguments:
        arguments.pop(draw.choice(list(arguments)))
    elif how == 4:
        arguments["surplus"] = 1
    elif arguments:
        parameter = draw.choice(list(arguments))
        arguments[parameter] = changed(arguments[parameter])
    return calls


data = bfcl / "bfcl_eval" / "data"
checked, seconds = 0, 0.0
for questions in sorted(data.glob("BFCL_v4_*.json")):
    category = questions.stem.removeprefix("BFCL_v4_")
    answers = data / "possible_answer" / questions.name
    is_single = not re.search("multi_turn|memory|web_search|format", category)
    if not answers.exists() or not is_single:
        continue
    truths = {row["id"]: row["ground_truth"] for row in map(json.loads, answers.open())}
    for entry in map(json.loads, questions.open()):
        truth = truths[entry["id"]]
        language = Language.JAVASCRIPT if "javascript" in category else Language.JAVA if "java" in category else Language.PYTHON
        right = gold(truth)
        if language != Language.PYTHON:
            right = [written(call, entry["function"], language) for call in right]
        for calls in [right] + [mutated(right) for _ in range(9)]:
            began = time.perf_counter()
            try:
                found = ast_checker(entry["function"], calls, truth, language, category, "x")
                verdict = bool(found["valid"])
            except Exception:
                # What the checker cannot read is no possible answer.
                verdict = False
            checked, seconds = checked + 1, seconds + time.perf_counter() - began
            write(kind="bfcl", id=entry["id"], category=category, functions=entry["function"],
                  expected=truth, calls=calls, verdict=verdict)

print(f"{checked} verdicts of BFCL's checker: {checked / seconds:.0f} a second", file=sys.stderr)

# Of memory and the web's search only what is said counts.
from bfcl_eval.eval_checker.agentic_eval.agentic_checker import agentic_checker  # noqa: E402

marks = [" ", "", "$", "(", "'", "_", "-", ". ", ", ", "\n", "x", "7", "\u00e9", "\u0301", "\u0966", "\u2167", "\u20ac"]


def said(possible):
    answer = draw.choice(possible)
    how = draw.randrange(8)
    if how == 0:
        answer = answer.upper()
    elif how == 1:
        answer = answer.replace(" ", draw.choice(marks))
    elif how == 2:
        place = draw.randrange(len(answer) + 1)
        answer = answer[:place] + draw.choice(marks) + answer[place:]
    elif how == 3:
        answer = answer[: draw.randrange(len(answer) + 1)]
    elif how == 4:
        answer = answer.replace(",", "").replace(".", "") + " " + answer
    return f"It is {draw.choice(marks)}{answer}{draw.choice(marks)}, I think."


for category in ["memory", "web_search"]:
    for row in map(json.loads, (data / "possible_answer" / f"BFCL_v4_{category}.json").open()):
        truth = row["ground_truth"]
        for answer in [truth[0], f"The answer: {truth[-1]}."] + [said(truth) for _ in range(40)]:
            verdict = bool(agentic_checker(answer, truth)["valid"])
            write(kind="bfcl", id=row["id"], category=category, functions=[], expected=truth, calls=[], answer=answer, verdict=verdict)

if inspect is None:
    print("left out: GAIA, for want of inspect-evals", file=sys.stderr)
    sys.exit()

# The scorer of GAIA is the official one; the library around it is not needed.
for name in ["inspect_ai", "inspect_ai.scorer", "inspect_ai.solver"]:
    module = types.ModuleType(name)
    module.__getattr__ = lambda attribute: lambda *a, **k: (lambda function: function)
    sys.modules[name] = module
place = inspect / "inspect_evals" / "gaia" / "scorer.py"
spec = importlib.util.spec_from_file_location("gaia_scorer_file", place)
gaia = importlib.util.module_from_spec(spec)
spec.loader.exec_module(gaia)

words = ["seagull", "sea gull", "Paris", "a", "b", "Ünal", "ΣΑΣ", "İ", "ß", "it's", "e-mail", "U.S.", "inf", "nan",
         "1", "2", "17", "1.0", "1e3", "1_000", "$5", "5%", "1,000", "1000", " ", "", "٣", "x\x1c", "\u00a0y", "½"]
joints = ["", " ", ",", ", ", ";", "; ", ".", "-", "$", "%", "\n", "\t", "\u2003"]


def text():
    parts = [draw.choice(words)]
    for _ in range(draw.randrange(4)):
        parts += [draw.choice(joints), draw.choice(words)]
    return "".join(parts)


for _ in range(12_000):
    expected = text()
    answer = text()
    if draw.random() < 0.6:
        # Something near to the expected answer.
        answer = draw.choice([
            expected, expected.upper(), expected.replace(",", ";"), expected.replace(" ", ""), expected + ".",
            "".join(c for c in expected if c not in string.punctuation), "$" + expected, expected + "%",
            ", ".join(reversed(expected.split(","))), "about " + expected,
        ])
    verdict, _why = gaia.question_scorer(answer, expected)
    write(kind="gaia", expected=expected, answer=answer, verdict=bool(verdict))
