"""The format sensitivity of BFCL v4 as an evaluation: it writes the files, and checks what was answered.

    bfcl_formats.py write FOLDER    writes formats.yaml, its team and its samples
    bfcl_formats.py score           reads a cell as JSON and prints its score

200 questions are asked in 26 forms each: a text describes the functions, as Python, XML or JSON, and the calls are to be written
as text, too, in one of four forms. So the agent needs no tools. The id of a sample names its form:
`ghostlight eval score formats.yaml --only ret_fmt=json` shows the success of the samples that ask for JSON. The prompts, the
readers of answers and the checker are the package's own; here a prompt is the beginning of the question. It needs `bfcl-eval`
2026.3.23 without its dependencies.
"""

import argparse
import contextlib
import os
import sys
import tempfile
import types
from pathlib import Path

import worlds

# What the package imports, and these questions, which are all about Python, do not need.
UNUSED = {
    "dotenv": ["load_dotenv"],
    "filelock": ["FileLock"],
    "tenacity": ["retry", "retry_if_exception_message", "retry_if_exception_type", "wait_random_exponential"],
    "bfcl_eval.model_handler.parser.java_parser": ["parse_java_function_call"],
    "bfcl_eval.model_handler.parser.js_parser": ["parse_javascript_function_call"],
    "bfcl_eval.eval_checker.ast_eval.type_convertor.java_type_converter": ["java_type_converter"],
    "bfcl_eval.eval_checker.ast_eval.type_convertor.js_type_converter": ["js_type_converter"],
}
for name, members in UNUSED.items():
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__dict__.update({member: lambda *_, **__: contextlib.nullcontext() for member in members})
# The package makes folders for results, which nothing is written to.
os.environ.setdefault("BFCL_PROJECT_ROOT", os.path.join(tempfile.gettempdir(), "bfcl-eval"))
# The checker asks of a model only whether its names have underscores in the place of dots.
plain = types.SimpleNamespace(underscore_to_dot=False)
sys.modules["bfcl_eval.constants.model_config"] = types.ModuleType("model_config")
sys.modules["bfcl_eval.constants.model_config"].MODEL_CONFIG_MAPPING = {"model": plain}

from bfcl_eval import utils  # noqa: E402
from bfcl_eval.constants.enums import Language, ReturnFormat  # noqa: E402
from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker  # noqa: E402
from bfcl_eval.model_handler import utils as prompting  # noqa: E402


def samples():
    entries = utils.load_dataset_entry("format_sensitivity")
    truths = utils.load_format_sensitivity_ground_truth_entry()
    for entry, truth in zip(entries, truths, strict=True):
        _, form, question = entry["id"].split(":")
        if truth["id"] != question:
            raise ValueError(f"the answer to {question} is that to {truth['id']}")
        said = "\n\n".join(message["content"] for message in entry["question"][0])
        yield {
            "id": f"{form}:{question}",
            "input": f"{prompting.formulate_system_prompt(form, entry['function'])}\n\n{said}",
            "cluster": question,
            "tags": form.split("&"),
            "metadata": {"functions": entry["function"], "truth": truth["ground_truth"]},
        }


def is_right(cell):
    sample = cell["sample"]
    form, _, question = sample["id"].partition(":")
    calls, tag, *_ = prompting.parse_prompt_variation_params(form)
    try:
        made = prompting.default_decode_ast_prompting(cell["answer"] or "", ReturnFormat(calls), tag)
    except Exception:
        return False
    if not utils.is_function_calling_format_output(made):
        return False
    about = sample["metadata"]
    return ast_checker(about["functions"], made, about["truth"], Language.PYTHON, question, "model")["valid"]


def main():
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("act", choices=["write", "score"])
    reader.add_argument("folder", nargs="?")
    given = reader.parse_args()
    if given.act == "score":
        return worlds.score(is_right)
    me = [sys.executable, os.path.abspath(__file__)]
    team = {"name": "bfcl-formats", "agent": {"name": "assistant"}}
    checker = {"command": {"name": "right", "run": [*me, "score"], "timeout_s": 60}}
    worlds.write(Path(given.folder), "formats", team, {"evaluation": "bfcl-formats", "scorers": [checker]}, samples())


if __name__ == "__main__":
    main()
