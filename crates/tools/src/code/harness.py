# Runs a program. The harness reads the program and the results of calls from stdin, one JSON object a line, and writes
# calls to stdout in the same way. The program's own output goes to stderr, where it cannot be mistaken for a call.
import sys

sys.path[:] = [folder for folder in sys.path if folder]
import json
import os


class ToolError(Exception):
    """A call that did not succeed. `status` is error, denied, blocked, interrupted or unknown."""

    def __init__(self, text, status):
        super().__init__(text)
        self.status = status


def run():
    results = os.fdopen(os.dup(0), "r", encoding="utf-8", newline="\n")
    calls = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    start = json.loads(results.readline())
    program = start["program"]

    def ended(result):
        text = result["text"]
        if result["status"] != "success":
            return ToolError(text, result["status"])
        try:
            value = json.loads(text)
        except ValueError:
            return text
        return value if isinstance(value, (dict, list)) else text

    def ask(asked):
        frame = {"calls": [{"name": name, "arguments": arguments} for name, arguments in asked]}
        calls.write(json.dumps(frame, allow_nan=False) + "\n")
        calls.flush()
        line = results.readline()
        if not line:
            raise SystemExit(1)
        return [ended(result) for result in json.loads(line)["results"]]

    def call(name, arguments=None):
        """Calls a tool: its result as text, or as the object or list that it is in JSON."""
        return call_all([(name, arguments or {})])[0]

    def call_all(asked):
        """Calls tools side by side, each as (name, arguments): their results, in this order."""
        ends = ask(list(asked))
        for end in ends:
            if isinstance(end, ToolError):
                raise end
        return ends

    names = {
        "__name__": "__main__",
        "call": call,
        "call_all": call_all,
        "tools": start["tools"],
        "ToolError": ToolError,
    }
    try:
        exec(compile(program, "<program>", "exec"), names)
    except SystemExit:
        raise
    except BaseException as error:
        import linecache
        import traceback

        linecache.cache["<program>"] = (len(program), None, program.splitlines(True), "<program>")
        traceback.print_exception(type(error), error, error.__traceback__.tb_next)
        sys.exit(1)


run()
