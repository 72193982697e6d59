#!/usr/bin/env python3
"""A notice is given to the model once, and only in the conversation that started the command, whatever the client does.

    conversations.py --outlast PROGRAM --agents DIR [--to FILE] [--only SCENE]... [CLIENT ...]

DIR has packages, as for told.py; drive.py says how each client is driven. FILE gets a line of JSON for each client: its version, and what came of each scene.

    apart       two conversations of the client in one directory, in a process each, are alive at the same time. In one of them the model starts a command, and
                the turn ends. The engine is killed, the command ends. Then both take turns, the other one first, in which the model calls tools, but never
                `notices`
    together    the same with two conversations in one process of the client
    http        the same as `apart` over HTTP, with one server for both
    later       the process of the first conversation is killed, too. A conversation that begins later is told, the one that lived beside it is not
    woken       two conversations of a client that is woken: the model calls no tool
    gives-up    the model runs a command that takes seven seconds, and does what it is told: told to try again, it does
    waits       the model waits for a command for longer than the client waits for the answer, and calls another tool later

What counts is what the model is given: how many messages of the conversation have the notice, in the client's last request to the model.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from drive import CLIENTS, Bare, Caller
from told import command as gated, ended, ends, is_due, let_go, open_gate, tells
from woken import WOKEN
from world import Missing, World, arguments, eventually

# How a conversation is found among all that the model is asked.
A, B, C = "amber", "birch", "cedar"
# The code of a command that is waited for, and how its end is told, in an answer or in a notice.
WAITED_CODE = 3
TOLD = re.compile(rf"exit(ed with)?[ _]code\W{{0,8}}{WAITED_CODE}\b", re.IGNORECASE)
# How a line is marked whose model may have been given the answer.
REPEATED = "(this may be a repeat)"
# A client that gives up within five seconds does so before this.
SECONDS = 7


class Wrong(Exception):
    """What should not be."""


def wrong_unless(holds, what):
    if not holds:
        raise Wrong(what)


class Stage:
    """Two conversations of a client."""

    def __init__(self, world, client, turns, together=False, later=(), remote=False):
        self.world, self.client, self.turns = world, client, turns
        world.play(turns)
        client.serve(world, served_over_http(world) if remote else [world.outlast, "mcp", *client.profile], {"OUTLAST_HOME": world.path("outlast")})
        self.talks, self.children, self.started = {}, {}, client.start(world) if together else None
        for name in turns:
            if name not in later:
                self.open(name)

    def open(self, name, earlier=None):
        """Begins a conversation, in a process of its own if they are not together, or goes on with an earlier one if the client names it. Returns its name."""
        before = list(self.world.children)
        started = self.started or self.client.start(self.world)
        if earlier and hasattr(started, "resume"):
            self.talks[earlier] = started.resume(self.talks[earlier])
            return earlier
        self.talks[name] = started.open(name)
        if isinstance(self.client, Bare):
            self.talks[name] = self.client.callers[name] = Caller(self.talks[name], self.turns[name])
        self.children[name] = [child for child in self.world.children if child not in before]
        return name

    def turn(self, name, seconds=120):
        self.talks[name].begin(f"{name}: go on")(seconds)

    def seen(self, name, pattern):
        """How many messages of a conversation have it."""
        return sum(bool(pattern.search(one)) for one in self.client.shown(self.world, name))

    def last(self, name):
        return (self.client.shown(self.world, name) or ["nothing"])[-1][-600:]


def served_over_http(world):
    """The address and the token of a server for several clients."""
    token = "hush-hush-hush-hush"
    server = world.start([world.outlast, "mcp", "--http"], env={"OUTLAST_MCP_TOKEN": token}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    line = server.stdout.readline()
    found = re.search(r"http://\S+/mcp", line)
    assert found, f"it does not listen: {line}"
    return [found.group(0), token]


def turns_of(client, *calls):
    """A turn for each call; several calls in a list are one turn."""
    turns = list(client.before)
    for call in calls:
        turns += [*(call if isinstance(call, list) else [call]), client.final]
    return turns


def kill_engine(world):
    os.kill(world.json("engine", "status", "--no-start")["pid"], signal.SIGKILL)


def scene_of_two(together=False, remote=False):
    def play(world, client):
        if remote and not client.remote:
            raise Missing("not driven over HTTP")
        tools, cannot = client.tools, together and client.shares or remote and client.remote == "without sessions"
        stage = Stage(world, client, {
            A: turns_of(client, tools.start(gated(world, 0)), tools.look(), tools.list()),
            B: turns_of(client, tools.look(), tools.look(), tools.list()),
        }, together, remote=remote)
        process = started_and_ended(world, stage, [])
        told = []
        for _ in range(2):
            for name in (B, A):
                stage.turn(name)
                told.append(stage.seen(name, tells(process)))
        other, right, other_later, right_later = told
        if cannot:
            wrong_unless(other_later + right_later == 1, f"told in {right_later} messages, in the other conversation in {other_later}")
            return "told once, to the first that calls"
        only_one(other + other_later, right_later)
        wrong_unless(right == 1 and right_later == 1, f"told in {right} messages, after the next turn in {right_later}")
        return settled(world, client, A, process)

    return play


def only_one(other, right):
    """The other conversation is told nothing."""
    wrong_unless(other == 0, "both are told" if right else "the other one is told")


def started_and_ended(world, stage, die):
    """The process that the first conversation started, once it has ended. The engine and these processes of the client are killed before."""
    for name in (A, B):
        stage.turn(name)
    running = [one for one in world.json("list")["processes"] if "gate-0 " in one["command"]]
    assert len(running) == 1, f"the command was not started: {stage.last(A)}"
    for child in die:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    kill_engine(world)
    let_go(world, 0)
    process = running[0]["session_id"]
    assert ended(world) == [process]
    return process


def settled(world, client, name, process):
    eventually("the notice to be settled", lambda: {one["state"] for one in ends(world)} == {"delivered"})
    shown = len(tells(process).findall("".join(client.shown(world, name))))
    return "told once" if shown == 1 else f"told in one answer, {shown} times there"


def later(world, client):
    tools = client.tools
    stage = Stage(world, client, {
        A: turns_of(client, tools.start(gated(world, 0)), tools.look(), tools.look()),
        B: turns_of(client, tools.look(), tools.look(), tools.look()),
        C: turns_of(client, tools.look(), tools.look()),
    }, later=[C])
    process = started_and_ended(world, stage, stage.children[A])
    stage.turn(B)
    name = stage.open(C, earlier=A)
    for _ in range(2):
        stage.turn(name)
        stage.turn(B)
        right, other = stage.seen(name, tells(process)), stage.seen(B, tells(process))
        only_one(other, right)
        wrong_unless(right == 1, f"told in {right} messages")
    return settled(world, client, name, process)


def woken(world, client):
    """Nothing calls a tool of ours once the command has ended, until the client was woken."""
    tools = client.tools
    stage = Stage(world, client, {
        A: [*turns_of(client, tools.start(gated(world, 0))), {"text": "noted"}, *turns_of(client, tools.look())],
        B: turns_of(client, tools.look(), tools.look()),
    }, together=True)
    # An engine reads its sinks when it starts.
    world.call(world.outlast, "engine", "stop")
    for name in (A, B):
        stage.turn(name)
    process = world.json("list")["processes"][0]["session_id"]
    kill_engine(world)
    open_gate(world, 0)
    eventually("the turn that it is woken for", lambda: stage.seen(A, tells(process)) or stage.seen(B, tells(process)))
    eventually("the notice to be settled", lambda: {one["state"] for one in ends(world)} == {"delivered"})
    for name in (B, A):
        stage.turn(name)
    right, other = stage.seen(A, tells(process)), stage.seen(B, tells(process))
    only_one(other, right)
    wrong_unless(right == 1, f"told in {right} messages")
    return "woken, and told once"


def gives_up(world, client):
    """A call that waits as long as is usual."""
    call = client.tools.run(waited(world, SECONDS))
    again = {**call, "if": "try again", "keep": 3}
    stage = Stage(world, client, {A: turns_of(client, [call, again], client.tools.look(), client.tools.look())})
    stage.turn(A)
    ended_waited(world)
    for _ in range(2):
        stage.turn(A)
    return told_of_end(world, stage)


def waits(world, client):
    """A call that waits for longer than the client does."""
    if client.gives_up is None:
        raise Missing("it waits for more than a minute")
    seconds = client.gives_up + 3
    stage = Stage(world, client, {A: turns_of(client, client.tools.wait(waited(world, seconds), seconds + 20), client.tools.look(), client.tools.look())})
    stage.turn(A, seconds + 60)
    ended_waited(world)
    for _ in range(2):
        stage.turn(A)
    return told_of_end(world, stage)


def waited(world, seconds):
    """A command that writes down that it runs, and is waited for."""
    return f"echo ran >> {world.path('ran')}; sleep {seconds}; echo over >> {world.path('over')}; exit {WAITED_CODE}"


def lines(world, name):
    if not os.path.exists(world.path(name)):
        return 0
    with open(world.path(name)) as file:
        return len(file.readlines())


def runs(world):
    return lines(world, "ran")


def ended_waited(world):
    """Returns when every such command has ended, and no answer is under way."""
    def are_over():
        # One that was waited for may be forgotten, and is not in the list.
        return runs(world) == lines(world, "over") and not [one for one in world.json("list")["processes"] if one["status"] == "running"]

    eventually("the end of what is waited for", are_over)
    # An answer that the client does not wait for any longer has its notice reserved until it is sent.
    eventually("the notices to be free", lambda: all(one["state"] != "leased" or is_due(one) for one in world.json("events", "history")["notices"]))


def told_of_end(world, stage):
    """The command ran once, and the model was told how it ended. If it was told again, that is marked."""
    wrong_unless(runs(world) == 1, f"run {runs(world)} times")
    told = [one for one in stage.client.shown(world, A) if TOLD.search(one)]
    wrong_unless(told, "its end is never told")
    if len(told) == 1:
        return "told once"
    wrong_unless(all(REPEATED in one for one in told[1:]), f"told in {len(told)} answers")
    return f"told in {len(told)} answers, all but the first marked as possible repeats"


ALL = {**CLIENTS, **WOKEN}
SCENES = {"apart": scene_of_two(), "together": scene_of_two(together=True), "http": scene_of_two(remote=True), "later": later, "woken": woken,
          "gives-up": gives_up, "waits": waits}


def row(name, args):
    """What came of the scenes with a client."""
    client, found = ALL[name], {"client": name}
    for scene, play in SCENES.items():
        if args.only and scene not in args.only or (scene == "woken") != (name in WOKEN):
            continue
        world, began = World(name, args), time.monotonic()
        kept = False
        try:
            found.setdefault("version", client.version(world))
            found[scene] = {"ok": True, "says": play(world, client)}
        except Missing as why:
            found[scene] = {"ok": None, "says": str(why)}
        except Wrong as why:
            found[scene] = {"ok": False, "says": str(why)}
        except Exception as why:  # Told, and the next one is run.
            found[scene], kept = {"ok": False, "says": f"failed: {why!r}"}, True
        world.close()
        if args.keep or kept:
            print(f"kept: {world.root}", file=sys.stderr)
        else:
            shutil.rmtree(world.root, ignore_errors=True)
        says = {True: "", None: "skipped: ", False: "FAILED: "}[found[scene]["ok"]] + found[scene]["says"]
        print(f"{name} {found.get('version', '?')}: {scene}: {says} ({time.monotonic() - began:.1f} s)", flush=True)
    return found


def main():
    def more(add):
        add("--to", metavar="FILE", help="where the rows are written")
        add("--only", action="append", metavar="SCENE", choices=list(SCENES), help=", ".join(SCENES))
        add("--keep", action="store_true", help="keep what was made")

    args = arguments(__doc__.splitlines()[0], ALL, more)
    rows = []
    for name in args.names or ALL:
        rows.append(row(name, args))
        if args.to:
            with open(args.to, "w") as file:
                json.dump(rows, file, indent=1)
    sys.exit(any(one["ok"] is False for found in rows for one in found.values() if isinstance(one, dict)))


if __name__ == "__main__":
    main()
