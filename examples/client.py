"""Creates a session, appends a turn, forks it and replays the fork, through the official Python SDK.

    pip install agent-client-protocol==0.12.1
    python examples/client.py sessiond serve --store memory:
"""

import asyncio
import os
import sys

import acp


class Client(acp.Client):
    """Shows the updates of a history: they come before the answer to its load."""

    async def session_update(self, session_id, update, **_):
        print("replayed", update.model_dump_json(by_alias=True, exclude_none=True))


def text(words):
    return [{"type": "text", "text": words}]


ANSWER = {
    "id": "a1",
    "role": "assistant",
    "content": text("Hello."),
    "source": {"kind": "model", "provider": "example", "model": "none"},
}
TURN = [
    {"type": "turn/start", "data": {"turn": 1}},
    {
        "type": "user/message",
        "data": {"id": "u1", "role": "user", "content": text("Hi"), "source": {"kind": "user"}},
        "surfaceOp": "append",
    },
    {"type": "step/start", "data": {"turn": 1, "step": 1}},
    {
        "type": "assistant/message",
        "data": {"turn": 1, "step": 1, "message": ANSWER},
        "surfaceOp": "append",
    },
    {"type": "step/end", "data": {"turn": 1, "step": 1}},
    {"type": "turn/end", "data": {"turn": 1, "reason": {"kind": "completed"}}},
]


async def main():
    command, *args = sys.argv[1:] or ["sessiond"]
    args = args or ["serve", "--store", "memory:"]
    async with acp.spawn_agent_process(Client(), command, *args) as (daemon, _process):
        hello = await daemon.initialize(protocol_version=acp.PROTOCOL_VERSION)
        print(hello.agent_info.name, hello.agent_info.version)
        cwd = os.getcwd()
        session = (await daemon.new_session(cwd=cwd, mcp_servers=[])).session_id

        # The daemon runs no model: what an agent does is appended, here by the client itself.
        # The SDK writes an underscore before the names of methods that ACP does not define.
        batch = await daemon.ext_method("session/append_batch", {"sessionId": session, "events": TURN})
        print("appended", batch["count"], "events")

        fork = await daemon.fork_session(session_id=session, cwd=cwd, mcp_servers=[])
        print("forked after event", fork.field_meta["sessiond"]["boundary"])
        await daemon.load_session(session_id=fork.session_id, cwd=cwd, mcp_servers=[])

        # Prompts are refused: this is a store.
        try:
            await daemon.prompt(session_id=session, prompt=[acp.text_block("Hi")])
        except acp.RequestError as error:
            print(error)
        for session_id in (session, fork.session_id):
            await daemon.close_session(session_id=session_id)


asyncio.run(main())
