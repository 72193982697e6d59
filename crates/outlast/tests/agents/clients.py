#!/usr/bin/env python3
"""One conversation of an agent framework with a model, with `outlast mcp` as its tools.

    clients.py CLIENT MODEL OUTLAST

Runs in the environment of the client. MODEL is the address of an OpenAI-compatible server, OUTLAST the program. The prompt is of no importance: the model is a
script. `fastmcp` has no model: what its client gives to the caller is printed, one line of JSON for each call of `CALLS`.
"""

import asyncio
import json
import os
import sys

PATIENCE = 120
PROMPT = "go"
ENV = dict(os.environ)


async def pydantic_ai(model, outlast):
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai import Agent
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    tools = MCPToolset(StdioTransport(outlast, ["mcp"], env=ENV), max_retries=5)
    agent = Agent(OpenAIChatModel("mock", provider=OpenAIProvider(base_url=model, api_key="none")), toolsets=[tools])
    async with agent:
        await agent.run(PROMPT)


async def openai_agents(model, outlast, structured=False):
    from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
    from agents.mcp import MCPServerStdio
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    params = {"command": outlast, "args": ["mcp"], "env": ENV}
    async with MCPServerStdio(params, use_structured_content=structured, client_session_timeout_seconds=PATIENCE) as server:
        client = AsyncOpenAI(base_url=model, api_key="none")
        agent = Agent(name="a", mcp_servers=[server], model=OpenAIChatCompletionsModel(model="mock", openai_client=client))
        await Runner.run(agent, PROMPT)


async def openai_agents_structured(model, outlast):
    await openai_agents(model, outlast, structured=True)


async def smolagents(model, outlast, structured=False):
    from mcp import StdioServerParameters
    from smolagents import MCPClient, OpenAIModel, ToolCallingAgent

    with MCPClient(StdioServerParameters(command=outlast, args=["mcp"], env=ENV), structured_output=structured) as tools:
        agent = ToolCallingAgent(tools=tools, model=OpenAIModel("mock", api_base=model, api_key="none"), max_steps=10)
        await asyncio.to_thread(agent.run, PROMPT)


async def smolagents_structured(model, outlast):
    await smolagents(model, outlast, structured=True)


async def fast_agent(model, outlast):
    try:
        from fast_agent import FastAgent
    except ImportError:
        from mcp_agent.core.fastagent import FastAgent

    with open("fastagent.config.yaml", "w") as file:
        server = {"command": outlast, "args": ["mcp"], "env": ENV}
        json.dump({"generic": {"base_url": model, "api_key": "none"}, "mcp": {"servers": {"outlast": server}}}, file)
    fast = FastAgent("told", parse_cli_args=False, config_path="fastagent.config.yaml")

    @fast.agent(name="a", instruction="go", model="generic.mock", servers=["outlast"])
    async def talk():
        async with fast.run() as agent:
            await agent.send(PROMPT)

    await talk()


async def fastmcp(_model, outlast):
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport
    from fastmcp.exceptions import ToolError

    async with Client(StdioTransport(outlast, ["mcp"], env=ENV)) as client:
        for line in sys.stdin:
            call = json.loads(line)
            try:
                got = await client.call_tool(call["tool"], call["arguments"])
                texts = [part.text for part in got.content]
                said = {"first_text": texts[0], "structured": json.dumps(got.structured_content), "texts": len(texts)}
            except ToolError as error:
                said = {"error": str(error)}
            print(json.dumps(said), flush=True)


CLIENTS = {one.__name__.replace("_", "-"): one for one in (
    pydantic_ai, openai_agents, openai_agents_structured, smolagents, smolagents_structured, fast_agent, fastmcp)}

if __name__ == "__main__":
    name, model, outlast = sys.argv[1:]
    asyncio.run(asyncio.wait_for(CLIENTS[name](model, outlast), PATIENCE))
