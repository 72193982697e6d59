#!/usr/bin/env python3
"""An MCP server that writes down what a client sends, for what the documents say of each client.

    probe.py LOG

LOG gets a line of JSON for the start, with the environment and the process that started it, for each message, and for the end of the input. It has two tools:
`look` is answered with a different word in the text, the structured content and `_meta`; `slow` is never answered, so that the client has to give up.
"""

import json
import os
import sys
import time

WORDS = {"text": "word-of-the-text", "structured": "word-of-the-structured-content", "meta": "word-of-the-meta"}
INFO = {"name": "probe", "version": "1"}
# What the revision without a handshake asks for.
CACHED = {"ttlMs": 0, "cacheScope": "private"}
OBJECT = {"type": "object", "properties": {}}
TOOLS = [
    {"name": "look", "description": "Look.", "inputSchema": OBJECT, "outputSchema": {"type": "object", "properties": {"said": {"type": "string"}}}},
    {"name": "slow", "description": "Take long.", "inputSchema": OBJECT},
]


def answer(method, params):
    """The answer, or None for a method that this server does not have."""
    if method == "server/discover":
        meta = {"io.modelcontextprotocol/serverInfo": INFO}
        return {"supportedVersions": ["2025-11-25", "2026-07-28"], "capabilities": {"tools": {}}, "_meta": meta, **CACHED}
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": INFO}
    if method == "tools/list":
        return {"tools": TOOLS, **CACHED}
    if method == "ping":
        return {}
    if method == "tools/call":
        content = [{"type": "text", "text": WORDS["text"]}]
        return {"content": content, "structuredContent": {"said": WORDS["structured"]}, "_meta": {"probe/word": WORDS["meta"]}}
    return None


def main():
    with open(sys.argv[1], "a") as log:

        def note(**what):
            log.write(json.dumps({"time": time.time(), "pid": os.getpid(), **what}) + "\n")
            log.flush()

        note(started=dict(os.environ), parent=os.getppid())
        for line in sys.stdin:
            message = json.loads(line)
            note(message=message)
            if "id" not in message or message.get("params", {}).get("name") == "slow":
                continue
            result = answer(message.get("method"), message.get("params") or {})
            error = {"error": {"code": -32601, "message": "there is no such method"}}
            reply = {"jsonrpc": "2.0", "id": message["id"], **(error if result is None else {"result": {"resultType": "complete", **result}})}
            print(json.dumps(reply), flush=True)
        note(ended=True)


if __name__ == "__main__":
    main()
