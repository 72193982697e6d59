#!/usr/bin/env python3
"""What each MCP client sends, shows its model and waits for, measured with a server that writes down what it is sent.

    facts.py --outlast PROGRAM --agents DIR [--to FILE] [--patience SECONDS] [CLIENT ...]

FILE gets a JSON object of each client: its name for servers and the version of the protocol, the environment of its server, the `_meta` of its calls, which
parts of an answer its model is given, how many servers two conversations of one process have, and after how long it gives up a call, if it does so within
SECONDS.
PROGRAM is not run.
"""

import json
import os
import sys
import time

import model
import probe
from drive import CLIENTS, Bare, Caller
from world import HERE, arguments, run_all

# How a conversation is found among all that the model is asked.
A, B = "amber", "birch"


def noted(world):
    if not os.path.exists(world.path("probe.log")):
        return []
    with open(world.path("probe.log")) as lines:
        return [json.loads(line) for line in lines if line.endswith("\n")]


def facts(client, patience):
    def run(world):
        look, slow = client.tools.call("look", {}), client.tools.call("slow", {})
        turns = {name: [*client.before, look, client.final, slow, client.final] for name in (A, B)}
        world.play(turns)
        client.serve(world, [sys.executable, "-B", os.path.join(HERE, "probe.py"), world.path("probe.log")], {})
        started = client.start(world)
        talks = {name: opened(client, started, name, turns[name]) for name in (A, B)}
        for name, talk in talks.items():
            talk.begin(f"{name}: go")()
        seen = client.shown(world, A)
        ends = talks[A].begin(f"{A}: go on")
        gave_up, told = wait_for_the_end(world, client, ends, patience)
        return {"version": client.version(world), **sent(world, talks), "shown": [part for part, word in probe.WORDS.items() if word in "".join(seen)],
                "shown_as": [one for one in seen if "word-of" in one], **gave_up, "told": told}

    return run


def opened(client, started, name, turns):
    """A conversation of a client that has been started."""
    talk = started.open(name)
    if isinstance(client, Bare):
        talk = client.callers[name] = Caller(talk, turns)
    return talk


def call_of_slow(world):
    """When the slow tool was called, and when the client told its server that it has given up, if it has."""
    called = cancelled = number = None
    for one in noted(world):
        message = one.get("message", {})
        params = message.get("params", {})
        if params.get("name") == "slow":
            called, number = one["time"], message["id"]
        if message.get("method") == "notifications/cancelled" and number is not None and params.get("requestId") == number:
            cancelled = one["time"]
    return called, cancelled


def wait_for_the_end(world, client, ends, patience):
    """When the client gives up its call, and what its model is told of it."""
    end = time.monotonic() + patience
    while time.monotonic() < end and call_of_slow(world)[1] is None:
        try:
            ends(0.2)
            break
        except AssertionError as why:
            if "did not end" not in str(why) and "no answer" not in str(why):
                raise
    else:
        if call_of_slow(world)[1] is None:
            return {"gave_up_seconds": None, "patience_seconds": patience, "cancels": None}, None
    try:
        ends(30)
    except AssertionError:
        pass  # The client told its server, and something else keeps the turn.
    called, cancelled = call_of_slow(world)
    assert called, f"the call never came: {client.shown(world, A)[-2:]}"
    over = [one["time"] for one in model.said(world.log) if one["time"] > called + 0.5] if os.path.exists(world.log) else []
    at = min([*over, *([cancelled] if cancelled else [])], default=time.time())
    return {"gave_up_seconds": round(at - called, 1), "cancels": cancelled is not None}, (client.shown(world, A) or [None])[-1]


def sent(world, talks):
    """What the servers were sent."""
    lines = noted(world)
    servers = {one["pid"]: one for one in lines if "started" in one}
    messages = [one["message"] for one in lines if "message" in one]
    first = next((m["params"] for m in messages if m.get("method") == "initialize"), None)
    if first is None:
        # The revision without a handshake has it in each request.
        meta = next((m["params"]["_meta"] for m in messages if m.get("method") == "tools/call"), {})
        first = {key: meta.get(f"io.modelcontextprotocol/{name}") for key, name in
                 (("clientInfo", "clientInfo"), ("protocolVersion", "protocolVersion"), ("capabilities", "clientCapabilities"))}
    known = {*world.env, "LC_CTYPE", "_", "PWD", "OLDPWD", "SHLVL"}
    added = {key: value for one in servers.values() for key, value in one["started"].items() if key not in known}
    ids = {name: getattr(talk, "id", None) for name, talk in talks.items()}
    calls = [m["params"] for m in messages if m.get("method") == "tools/call"]
    return {
        "client_info": first.get("clientInfo"), "protocol": first.get("protocolVersion"), "capabilities": first.get("capabilities"),
        "methods": list(dict.fromkeys(m["method"] for m in messages if "method" in m)),
        "cancelled": [m["params"] for m in messages if m.get("method") == "notifications/cancelled"],
        "first_method": messages[0].get("method") if messages else None,
        "meta_of_initialize": first.get("_meta"), "meta_of_calls": [one.get("_meta") for one in calls],
        "environment": {key: value for key, value in added.items() if any(word in key for word in ("SESSION", "THREAD", "CONVERSATION", "_ID"))},
        "environment_names": sorted(added), "conversations": ids,
        "conversation_in_meta": [name for name, one in ids.items() if one and any(one in json.dumps(call.get("_meta")) for call in calls)],
        # Some clients also start servers only to list their tools.
        "servers": len({one["pid"] for one in lines if one.get("message", {}).get("method") == "tools/call"}), "started": len(servers),
        "parents": len({one["parent"] for one in servers.values()}),
    }


def main():
    args = arguments(__doc__.splitlines()[0], CLIENTS, lambda add: (
        add("--to", metavar="FILE", help="where the facts are written"), add("--patience", type=float, default=330, metavar="SECONDS")))
    found = {}

    def keep(name):
        def run(world):
            found[name] = {"client": name, **facts(CLIENTS[name], args.patience)(world)}
            return json.dumps(found[name])

        return run

    code = run_all(args, {name: keep(name) for name in CLIENTS}, lambda world, name: CLIENTS[name].version(world))
    if args.to:
        with open(args.to, "w") as file:
            json.dump(list(found.values()), file, indent=1)
    sys.exit(code)


if __name__ == "__main__":
    main()
