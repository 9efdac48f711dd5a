"""An editor on the official Python SDK of the Agent Client Protocol: editors.py COMMAND STORE TEAM_FILE.

It speaks to the command as it is shipped, kills it while a permission is asked for, and goes on with the same session.
Each message is read by the models of the SDK, so one in another form ends the script.
"""

import asyncio
import os
import signal
import sys

import acp
from acp import schema

command, store, team = sys.argv[1:4]
QUESTION = "What is 17% of 2340?"


class Editor(acp.Client):
    """Notes what it is told; says yes, or nothing at all."""

    def __init__(self, answers):
        self.answers, self.told, self.asked = answers, [], asyncio.Event()

    async def session_update(self, session_id, update, **_):
        self.told.append(update)

    async def request_permission(self, session_id, tool_call, options, **_):
        self.asked.set()
        if not self.answers:
            await asyncio.Event().wait()
        chosen = next(option for option in options if option.kind == "allow_once")
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    def said(self, kind=schema.AgentMessageChunk):
        return "".join(update.content.text for update in self.told if isinstance(update, kind))

    def calls(self):
        return [update for update in self.told if isinstance(update, (schema.ToolCallStart, schema.ToolCallProgress))]


def started(editor):
    environment = {**os.environ, "GHOSTLIGHT_STORE": store}
    return acp.spawn_agent_process(editor, command, "protocol", "acp", team, "--store", store, env=environment)


async def initialized(agent):
    told = await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
    assert told.protocol_version == 1 and told.agent_info.name == "ghostlight", told
    can = told.agent_capabilities
    assert can.load_session and can.session_capabilities.fork and can.session_capabilities.list, told


async def until(is_so):
    for _ in range(2000):
        if is_so():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError("it does not come")


async def kills():
    """The process is killed at any instant of a prompt, again and again; the prompt is sent again under its name."""
    named = {"ghostlight/idempotencyKey": "one"}
    editor = Editor(answers=True)
    async with started(editor) as (agent, process):
        await initialized(agent)
        session = (await agent.new_session(cwd="/kills", mcp_servers=[])).session_id
    for life in range(8):
        editor = Editor(answers=True)
        async with started(editor) as (agent, process):
            await initialized(agent)
            await agent.load_session(session_id=session, cwd="/kills", mcp_servers=[])
            prompt = asyncio.ensure_future(
                agent.prompt(session_id=session, prompt=[acp.text_block(QUESTION)], **named)
            )
            if life < 7:
                await asyncio.sleep(0.004 * life)
                process.send_signal(signal.SIGKILL)
                await process.wait()
                prompt.cancel()
                continue
            assert (await prompt).stop_reason == "end_turn"
            assert "397.8" in editor.said(), editor.told
    editor = Editor(answers=True)
    async with started(editor) as (agent, process):
        await initialized(agent)
        await agent.load_session(session_id=session, cwd="/kills", mcp_servers=[])
        said = editor.said(schema.UserMessageChunk)
        assert said == QUESTION, f"it was said once: {said}"
        ended = [call for call in editor.calls() if call.status == "completed"]
        assert len(ended) == 1, editor.told


async def main():
    await kills()
    # It is killed while it asks.
    editor = Editor(answers=False)
    async with started(editor) as (agent, process):
        await initialized(agent)
        session = await agent.new_session(cwd="/home/ada/shop", mcp_servers=[])
        assert session.modes.current_mode_id == "run", session
        prompt = asyncio.ensure_future(
            agent.prompt(session_id=session.session_id, prompt=[acp.text_block(QUESTION)])
        )
        await editor.asked.wait()
        assert editor.calls()[0].status == "pending", editor.told
        process.send_signal(signal.SIGKILL)
        await process.wait()
        prompt.cancel()
    # The next process shows what was said, asks again, and goes on.
    editor = Editor(answers=True)
    async with started(editor) as (agent, process):
        await initialized(agent)
        await agent.load_session(session_id=session.session_id, cwd="/home/ada/shop", mcp_servers=[])
        assert editor.said(schema.UserMessageChunk) == QUESTION, editor.told
        await until(lambda: "397.8" in editor.said())
        ended = [call for call in editor.calls() if call.status == "completed"]
        assert len(ended) == 1 and "397.8" in ended[0].content[0].content.text, editor.told
        # A conversation goes on, and in a fork of it too.
        fork = await agent.fork_session(session_id=session.session_id, cwd="/home/ada/shop")
        for one in (session.session_id, fork.session_id):
            editor.told.clear()
            ended = await agent.prompt(session_id=one, prompt=[acp.text_block("What is 2 + 3?")])
            assert ended.stop_reason == "end_turn" and "5" in editor.said(), editor.told
        listed = await agent.list_sessions(cwd="/home/ada/shop")
        assert {one.session_id for one in listed.sessions} == {session.session_id, fork.session_id}, listed
        await agent.set_session_mode(session_id=session.session_id, mode_id="dry_run")
        editor.answers = False
        await agent.set_session_mode(session_id=session.session_id, mode_id="run")
        # A cancel ends the prompt.
        editor.asked.clear()
        prompt = asyncio.ensure_future(
            agent.prompt(session_id=session.session_id, prompt=[acp.text_block(QUESTION)])
        )
        await editor.asked.wait()
        await agent.cancel(session_id=session.session_id)
        assert (await prompt).stop_reason == "cancelled"
        try:
            await agent.load_session(session_id="nobody", cwd="/", mcp_servers=[])
            raise AssertionError("a session that is not there was loaded")
        except acp.RequestError as error:
            assert error.code == -32002, error
    print("all is well")


asyncio.run(main())
