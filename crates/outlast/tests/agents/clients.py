#!/usr/bin/env python3
"""Conversations of an agent framework with a model, with one MCP server as its tools.

    clients.py CLIENT MODEL PROGRAM [ARGUMENT]...

Runs in the environment of the client. MODEL is the address of an OpenAI-compatible server, PROGRAM with its arguments is the MCP server, or its address and its
token. All settings are the client's defaults. Each line of the input is a turn, {"conversation": NAME, "prompt": TEXT}: a new name begins a conversation with a
server of its own, and turns of different conversations run at the same time. When a turn has ended, a line of output says so: {"conversation": NAME, "answer":
...}, or "error". It exits with 1 if there was one.

What the prompt says is of no importance: the model is a script. `fastmcp` has no model: its prompt is a call, {"tool": NAME, "arguments": {...}}, and its
answer is what its caller is given.
"""

import asyncio
import contextlib
import json
import os
import sys

ENV = dict(os.environ)


def is_remote(program):
    return program[0].startswith("http://")


def server(program):
    if is_remote(program):
        return {"url": program[0], "headers": {"Authorization": f"Bearer {program[1]}"}}
    return {"command": program[0], "args": program[1:], "env": ENV}


def transport(program):
    """FastMCP's."""
    from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

    if is_remote(program):
        return StreamableHttpTransport(**server(program))
    return StdioTransport(program[0], program[1:], env=ENV)


@contextlib.asynccontextmanager
async def pydantic_ai(model, program, name):
    from pydantic_ai import Agent
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    tools = MCPToolset(transport(program), max_retries=5)
    agent = Agent(OpenAIChatModel("mock", provider=OpenAIProvider(base_url=model, api_key="none")), toolsets=[tools])
    history = []

    async def turn(prompt):
        history[:] = (await agent.run(prompt, message_history=history)).all_messages()

    async with agent:
        yield turn


@contextlib.asynccontextmanager
async def openai_agents(model, program, name, structured=False):
    from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
    from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    Server = MCPServerStreamableHttp if is_remote(program) else MCPServerStdio
    async with Server(server(program), use_structured_content=structured) as tools:
        client = AsyncOpenAI(base_url=model, api_key="none")
        agent = Agent(name="a", mcp_servers=[tools], model=OpenAIChatCompletionsModel(model="mock", openai_client=client))
        history = []

        async def turn(prompt):
            history[:] = (await Runner.run(agent, [*history, {"role": "user", "content": prompt}])).to_input_list()

        yield turn


def openai_agents_structured(model, program, name):
    return openai_agents(model, program, name, structured=True)


@contextlib.asynccontextmanager
async def smolagents(model, program, name, structured=False):
    from mcp import StdioServerParameters
    from smolagents import MCPClient, OpenAIModel, ToolCallingAgent

    with MCPClient(StdioServerParameters(**server(program)), structured_output=structured) as tools:
        agent = ToolCallingAgent(tools=tools, model=OpenAIModel("mock", api_base=model, api_key="none"), max_steps=10)

        async def turn(prompt):
            await asyncio.to_thread(agent.run, prompt, reset=False)

        yield turn


def smolagents_structured(model, program, name):
    return smolagents(model, program, name, structured=True)


@contextlib.asynccontextmanager
async def fast_agent(model, program, name):
    try:
        from fast_agent import FastAgent
    except ImportError:
        from mcp_agent.core.fastagent import FastAgent

    config = f"fastagent.{name}.config.yaml"
    with open(config, "w") as file:
        json.dump({"generic": {"base_url": model, "api_key": "none"}, "mcp": {"servers": {"outlast": server(program)}}}, file)
    fast = FastAgent("told", parse_cli_args=False, config_path=config)

    @fast.agent(name="a", instruction="go", model="generic.mock", servers=["outlast"])
    async def talk():
        pass

    async with fast.run() as agent:
        yield agent.send


@contextlib.asynccontextmanager
async def langchain(model, program, name):
    """As its README has it: `get_tools` starts a server for each call of a tool."""
    from langchain_mcp_adapters.client import MultiServerMCPClient

    client = MultiServerMCPClient({"outlast": {**server(program), "transport": "stdio"}})
    yield langchain_turn(model, await client.get_tools())


@contextlib.asynccontextmanager
async def langchain_session(model, program, name):
    """With a session, whose server stays."""
    from langchain_mcp_adapters.client import MultiServerMCPClient
    from langchain_mcp_adapters.tools import load_mcp_tools

    client = MultiServerMCPClient({"outlast": {**server(program), "transport": "streamable_http" if is_remote(program) else "stdio"}})
    async with client.session("outlast") as session:
        yield langchain_turn(model, await load_mcp_tools(session))


def langchain_turn(model, tools):
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    agent = create_agent(ChatOpenAI(model="mock", base_url=model, api_key="none"), tools)
    history = []

    async def turn(prompt):
        history.append({"role": "user", "content": prompt})
        history[:] = (await agent.ainvoke({"messages": history}))["messages"]

    return turn


@contextlib.asynccontextmanager
async def fastmcp(model, program, name):
    from fastmcp import Client
    from fastmcp.exceptions import ToolError

    async with Client(transport(program)) as client:

        async def turn(call):
            try:
                got = await client.call_tool(call["tool"], call["arguments"])
            except ToolError as error:
                return {"error": str(error)}
            texts = [part.text for part in got.content]
            return {"first_text": texts[0], "structured": json.dumps(got.structured_content), "texts": len(texts)}

        yield turn


CLIENTS = {one.__name__.replace("_", "-"): one for one in (
    pydantic_ai, openai_agents, openai_agents_structured, smolagents, smolagents_structured, fast_agent, langchain, langchain_session, fastmcp)}


async def converse(client, model, program, name, turns):
    def say(**what):
        global FAILED
        FAILED |= "error" in what
        print(json.dumps({"conversation": name, **what}), file=OUTPUT, flush=True)

    try:
        async with client(model, program, name) as turn:
            while (prompt := await turns.get()) is not None:
                try:
                    answer = await turn(prompt)
                    say(answer=answer if isinstance(answer, dict) else None)
                except Exception as error:
                    say(error=repr(error))
    except Exception as error:
        say(error=repr(error))


async def main(name, model, *program):
    conversations = {}
    while line := await asyncio.to_thread(sys.stdin.readline):
        asked = json.loads(line)
        which = asked["conversation"]
        if which not in conversations:
            turns = asyncio.Queue()
            conversations[which] = turns, asyncio.create_task(converse(CLIENTS[name], model, list(program), which, turns))
        conversations[which][0].put_nowait(asked["prompt"])
    for turns, task in conversations.values():
        turns.put_nowait(None)
        await task


if __name__ == "__main__":
    # Some clients print.
    OUTPUT, sys.stdout, FAILED = sys.stdout, sys.stderr, False
    asyncio.run(main(*sys.argv[1:]))
    sys.exit(FAILED)
