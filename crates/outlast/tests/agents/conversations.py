#!/usr/bin/env python3
"""A notice is given to the model once, and only in the conversation that started the command, whatever the client does.

    conversations.py --outlast PROGRAM --agents DIR [--to FILE] [--only SCENE]... [CLIENT ...]

DIR has packages, as for told.py; drive.py says how each client is driven. FILE gets a line of JSON for each client: its version, and what came of each scene.

    apart       two conversations of the client in one directory, in a process each, are alive at the same time. In one of them the model starts a command, and the
                turn ends. The engine is killed, the command ends. Then both take turns, the other one first, in which the model calls tools, but never `notices`
    together    the same with two conversations in one process of the client
    woken       the same with a client that is woken: the model calls no tool
    gives-up    the model runs a command that takes seven seconds, and does what it is told: told to try again, it does
    waits       the model waits for a command for longer than the client waits for the answer, and calls another tool later

What counts is what the model is given: how many messages of the conversation have the notice, in the client's last request to the model.
"""

import json
import os
import re
import shutil
import signal
import sys
import time

from drive import CLIENTS, Bare, Caller
from told import command as gated, ended, ends, is_due, let_go, tells
from world import Missing, World, arguments, eventually

# How a conversation is found among all that the model is asked.
A, B = "amber", "birch"
# The code of a command that is waited for, and how its end is told, in an answer or in a notice.
WAITED_CODE = 3
TOLD = re.compile(rf"exit(ed with)?[ _]code\W{{0,8}}{WAITED_CODE}\b", re.IGNORECASE)
# A client that gives up within five seconds does so before this.
SECONDS = 7


class Wrong(Exception):
    """What should not be."""


def wrong_unless(holds, what):
    if not holds:
        raise Wrong(what)


class Stage:
    """Two conversations of a client."""

    def __init__(self, world, client, turns, together=False):
        self.world, self.client = world, client
        world.play(turns)
        client.serve(world, [world.outlast, "mcp"], {"OUTLAST_HOME": world.path("outlast")})
        started = [client.start(world)]
        if not together and len(turns) > 1:
            started.append(client.start(world))
        self.talks = {}
        for n, (name, script) in enumerate(turns.items()):
            self.talks[name] = started[n % len(started)].open(name)
            if isinstance(client, Bare):
                self.talks[name] = client.callers[name] = Caller(self.talks[name], script)

    def turn(self, name, seconds=120):
        self.talks[name].begin(f"{name}: go on")(seconds)

    def seen(self, name, pattern):
        """How many messages of a conversation have it."""
        return sum(bool(pattern.search(one)) for one in self.client.shown(self.world, name))

    def last(self, name):
        return (self.client.shown(self.world, name) or ["nothing"])[-1][-600:]


def turns_of(client, *calls):
    """A turn for each call; several calls in a list are one turn."""
    turns = list(client.before)
    for call in calls:
        turns += [*(call if isinstance(call, list) else [call]), client.final]
    return turns


def kill_engine(world):
    os.kill(world.json("engine", "status", "--no-start")["pid"], signal.SIGKILL)


def scene_of_two(together):
    def play(world, client):
        tools = client.tools
        stage = Stage(world, client, {
            A: turns_of(client, tools.start(gated(world, 0)), tools.look(), tools.list()),
            B: turns_of(client, tools.look(), tools.look(), tools.list()),
        }, together)
        for name in (A, B):
            stage.turn(name)
        running = [one for one in world.json("list")["processes"] if "gate-0 " in one["command"]]
        assert len(running) == 1, f"the command was not started: {stage.last(A)}"
        process = running[0]["session_id"]
        kill_engine(world)
        let_go(world, 0)
        assert ended(world) == [process]
        told = []
        for _ in range(2):
            for name in (B, A):
                stage.turn(name)
                told.append(stage.seen(name, tells(process)))
        other, right, other_later, right_later = told
        wrong_unless(other == other_later == 0, f"the other conversation is told ({max(other, other_later)} messages), the right one {right_later or 'is not'}")
        wrong_unless(right == 1 and right_later == 1, f"told in {right} messages, after the next turn in {right_later}")
        eventually("the notice to be settled", lambda: {one["state"] for one in ends(world)} == {"delivered"})
        shown = len(tells(process).findall("".join(client.shown(world, A))))
        return "told once" if shown == 1 else f"told in one answer, {shown} times there"

    return play


def gives_up(world, client):
    """A call that waits as long as is usual."""
    call = client.tools.run(waited(world, SECONDS))
    again = {**call, "if": "try again", "keep": 3}
    stage = Stage(world, client, {A: turns_of(client, [call, again], client.tools.look(), client.tools.look())})
    stage.turn(A)
    ended_waited(world)
    for _ in range(2):
        stage.turn(A)
    ran = runs(world)
    wrong_unless(ran == 1, f"run {ran} times")
    wrong_unless(times_told(stage), "its end is never told")
    return f"told in {times_told(stage)} answers" if times_told(stage) > 1 else "told once"


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
    wrong_unless(runs(world) == 1, f"run {runs(world)} times")
    wrong_unless(times_told(stage), "its end is never told")
    return f"told in {times_told(stage)} answers" if times_told(stage) > 1 else "told once"


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


def times_told(stage):
    return sum(bool(TOLD.search(one)) for one in stage.client.shown(stage.world, A))


SCENES = {"apart": scene_of_two(False), "together": scene_of_two(True), "gives-up": gives_up, "waits": waits}


def row(name, args):
    """What came of the scenes with a client."""
    client, found = CLIENTS[name], {"client": name}
    for scene, play in SCENES.items():
        if args.only and scene not in args.only:
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

    args = arguments(__doc__.splitlines()[0], CLIENTS, more)
    rows = []
    for name in args.names or CLIENTS:
        rows.append(row(name, args))
        if args.to:
            with open(args.to, "w") as file:
                json.dump(rows, file, indent=1)
    sys.exit(any(one["ok"] is False for found in rows for one in found.values() if isinstance(one, dict)))


if __name__ == "__main__":
    main()
