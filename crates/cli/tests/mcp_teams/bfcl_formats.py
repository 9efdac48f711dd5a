"""Judges right and wrong answers to every twentieth question of BFCL's format sensitivity, each in its 26 forms."""

import json
import sys
from collections import Counter
from pathlib import Path
from xml.sax.saxutils import quoteattr, escape

sys.path.insert(0, str(Path(__file__).parents[4] / "examples/evals/benchmarks"))
import bfcl_formats as ours  # noqa: E402

KINDS = {str: "string", int: "integer", float: "float", bool: "boolean", list: "array", dict: "dict"}


def first(values):
    """A possible value as a model would give it; `None` where it may be left out."""
    value = next((one for one in values if one != ""), None)
    if isinstance(value, dict):
        found = {name: first(possible) if isinstance(possible, list) else possible for name, possible in value.items()}
        return {name: one for name, one in found.items() if one is not None}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [first([one]) for one in value]
    return value


def calls(truth):
    for answer in truth:
        ((name, possible),) = answer.items()
        found = {key: first(values) for key, values in possible.items()}
        yield name, {key: value for key, value in found.items() if value is not None}


def written(made, form):
    if "ret_fmt=python" in form:
        text = f"[{', '.join('{}({})'.format(name, ', '.join(f'{key}={value!r}' for key, value in named.items())) for name, named in made)}]"
    elif "ret_fmt=json" in form:
        text = "```json\n" + json.dumps([{"function": name, "parameters": named} for name, named in made]) + "\n```"
    else:
        plain = lambda value: value if isinstance(value, str) else repr(value)

        def parameter(key, value):
            kind = KINDS[type(value)]
            if "verbose" in form:
                return f'<param name={quoteattr(key)} value={quoteattr(plain(value))} type="{kind}"/>'
            return f'<param name={quoteattr(key)} type="{kind}">{escape(plain(value))}</param>'

        inner = [(name, "".join(parameter(*one) for one in named.items())) for name, named in made]
        of = "<params>{}</params>" if "verbose" in form else "{}"
        text = "".join(f'<function name="{name}">{of.format(parameters)}</function>' for name, parameters in inner)
        text = f"<functions>{text}</functions>"
    return f"<TOOLCALL>{text}</TOOLCALL>" if "tool_call_tag=True" in form else text


verdicts, count = Counter(), 0
for number, sample in enumerate(ours.samples()):
    if number // 26 % 20:
        continue
    count += 1
    form = sample["id"].partition(":")[0]
    made = list(calls(sample["metadata"]["truth"]))
    (name, named), *others = made
    answers = {
        "right": written(made, form),
        "one call too many": written([*made, made[0]], form),
        "another function": written([(f"{name}s", named), *others], form),
        "another form": written(made, "ret_fmt=json" if "ret_fmt=python" in form else "ret_fmt=python"),
        "prose": "I would call the function.",
        "nothing": "",
    }
    for kind, answer in answers.items():
        verdicts[kind] += ours.is_right({"sample": sample, "answer": answer})
print(json.dumps({"count": count, "right": dict(verdicts)}))
