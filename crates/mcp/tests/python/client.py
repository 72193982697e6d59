"""The Python SDK of MCP as a client of `outlast mcp`, old or new: lists the tools, runs a command, and is told of the end of another.

client.py PROGRAM   over the standard streams of the program
client.py URL       over HTTP, with the token of the variable TOKEN

`cargo xtask campaign mcp` calls it with each version of the SDK. It prints one line, and fails if anything is not as it should be.
"""

import asyncio
import contextlib
import importlib.metadata
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

TARGET = sys.argv[1]
TOOLS = ["run", "wait", "log", "list", "kill", "write", "notices"]
HEADERS = {"Authorization": f"Bearer {os.environ.get('TOKEN', '')}"}


def program():
    keep = {name: os.environ[name] for name in ("HOME", "PATH", "OUTLAST_HOME", "OUTLAST_TEST_POINTS") if name in os.environ}
    return StdioServerParameters(command=TARGET, args=["mcp"], env=keep)


@contextlib.asynccontextmanager
async def old():
    """A session of an SDK that knows nothing but the handshake."""
    if TARGET.startswith("http"):
        from mcp.client.streamable_http import streamablehttp_client

        transport = streamablehttp_client(TARGET, headers=HEADERS)
    else:
        transport = stdio_client(program())
    async with transport as streams, ClientSession(streams[0], streams[1]) as session:
        began = await session.initialize()
        yield session, began.protocolVersion


@contextlib.asynccontextmanager
async def new(mode):
    """A client of an SDK that knows both eras."""
    from mcp import Client

    if TARGET.startswith("http"):
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        async with httpx2.AsyncClient(headers=HEADERS) as http:
            async with Client(streamable_http_client(TARGET, http_client=http), mode=mode) as client:
                yield client, client.protocol_version
    else:
        async with Client(stdio_client(program()), mode=mode) as client:
            yield client, client.protocol_version


def structured(result):
    return result.structuredContent if hasattr(result, "structuredContent") else result.structured_content


async def use(client):
    tools = [tool.name for tool in (await client.list_tools()).tools]
    assert tools == TOOLS, tools
    ran = await client.call_tool("run", {"command": "echo from python; exit 3"})
    answer = structured(ran)
    assert answer["output"] == "from python" and answer["exit_code"] == 3, answer
    begun = structured(await client.call_tool("run", {"command": "read -r line; echo got $line", "input": True, "wait_seconds": 0}))
    assert begun["status"] == "running", begun
    # Its end may be told with this answer already, or with the next.
    wrote = await client.call_tool("write", {"process": begun["process"], "text": "it", "enter": True})
    told = structured(wrote).get("notices", [])
    told = told or structured(await client.call_tool("notices", {"wait_seconds": 30}))["notices"]
    assert len(told) == 1 and "got it" in str(told[0]), told
    again = structured(await client.call_tool("notices", {}))["notices"]
    assert again == [], again
    resources = (await client.list_resources()).resources
    read = await client.read_resource(next(r.uri for r in resources if str(r.uri).endswith("/log")))
    assert read.contents[0].text, read


async def main():
    spoken = []
    if importlib.metadata.version("mcp").startswith("1."):
        ways = [old()]
    else:
        ways = [new("legacy"), new("auto")]
    for way in ways:
        async with way as (client, version):
            await use(client)
            spoken.append(str(version))
    print("spoke", " and ".join(spoken))


asyncio.run(asyncio.wait_for(main(), 120))
