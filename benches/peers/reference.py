"""Drives the process registry of the Hermes agent and prints what was measured as one JSON object.

Run by the benchmarks with the Python of an environment in which the package is installed, a HOME and a HERMES_HOME of its own. Times are in seconds.
The caller that starts a process asks for its notice right after the start, as the agent's own terminal tool does.
"""

import json
import os
import queue
import resource
import sys
import threading
import time

from tools.process_registry import process_registry as registry

PATIENCE = 3.0
# How often it is looked for what nothing tells of.
LOOK = 0.002
SLEEP = "exec sleep 100000"
# A shell, two children, and one that has left its session.
TREE = "sleep 1000 & setsid sleep 1000 & sleep 1000 & wait"


def spawn(command, watch=()):
    session = registry.spawn_local(command)
    session.notify_on_complete = True
    session.watch_patterns = list(watch)
    return session


def events_until(deadline, wanted):
    """What is told until all wanted ids were, or until then."""
    came = {}
    while not wanted <= came.keys():
        try:
            event = registry.completion_queue.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        came[event["session_id"]] = (time.monotonic(), event)
    return came


def start(many, command):
    """One after another: until the call returned, and until the event came."""
    acknowledged, told, lost = [], [], 0
    for _ in range(int(many)):
        began = time.monotonic()
        session = spawn(command)
        acknowledged.append(time.monotonic() - began)
        came = events_until(time.monotonic() + PATIENCE, {session.id})
        if session.id in came:
            told.append(came[session.id][0] - began)
        else:
            lost += 1
    return {"acknowledged": acknowledged, "told": told, "lost": [lost]}


def beside(running, many):
    """How long a start takes beside a given number of running processes."""
    sleepers = [spawn(SLEEP) for _ in range(int(running))]
    times = []
    for _ in range(int(many)):
        began = time.monotonic()
        session = spawn("true")
        times.append(time.monotonic() - began)
        events_until(time.monotonic() + 0.5, {session.id})
    stop(sleepers)
    return {"acknowledged": times}


def burst(callers):
    """A given number of callers at once."""
    callers = int(callers)
    ids, lock, gate = [], threading.Lock(), threading.Barrier(callers + 1)

    def one():
        gate.wait()
        session = spawn("true")
        with lock:
            ids.append(session.id)

    threads = [threading.Thread(target=one) for _ in range(callers)]
    for thread in threads:
        thread.start()
    gate.wait()
    began = time.monotonic()
    for thread in threads:
        thread.join()
    returned = time.monotonic()
    came = events_until(returned + PATIENCE, set(ids))
    # Those whose event never came count as through when the last other one was.
    last = max([returned] + [at for at, _ in came.values()])
    return {"rate": [callers / (last - began)], "lost": [callers - len(came)]}


def end(many, stamp, lived):
    """From the last thing a process did until its event came."""
    told, lost = [], 0
    for _ in range(int(many)):
        session = spawn(f"exec {stamp} {lived}")
        came = events_until(time.monotonic() + PATIENCE, {session.id})
        if session.id in came:
            at, event = came[session.id]
            told.append(at - int(event["output"].split()[-1]) / 1e9)
        else:
            lost += 1
    return {"told": told, "lost": [lost]}


def orphan(stamp, lived, held):
    """The same where something else holds the pipe for a while."""
    session = spawn(f"sleep {held} & exec {stamp} {lived}")
    came = events_until(time.monotonic() + float(held) + PATIENCE, {session.id})
    at, event = came.get(session.id, (time.monotonic(), {"output": session.output_buffer}))
    return {"told": [at - int(event["output"].split()[-1]) / 1e9]}


def queries(running, many, command, line):
    """Queries about processes that print a few lines and sleep, and about one with a full buffer. Nothing crosses a process."""
    sleepers = [spawn(command) for _ in range(int(running))]
    for session in sleepers:
        # More than any preview shows.
        until("it prints", lambda: len(session.output_buffer) > 1000)
    some = sleepers[len(sleepers) // 2]
    found = {
        "list": timed(int(many) // 4, registry.list_sessions),
        "poll": timed(int(many), lambda: registry.poll(some.id)),
    }
    if not all(line[-20:] in entry["output_preview"] for entry in registry.list_sessions()):
        raise RuntimeError("some are listed without output")
    line += "\n"
    some.output_buffer = (line * (200_000 // len(line) + 1))[-200_000:]
    found["tail"] = timed(int(many), lambda: registry.read_log(some.id, limit=200))
    stop(sleepers)
    return found


def stops(many):
    """How long it takes to stop a tree."""
    times = []
    for _ in range(int(many)):
        session = spawn(TREE)
        until("the whole tree", lambda: len(children(session.pid)) == 3)
        began = time.monotonic()
        registry.kill_process(session.id)
        times.append(time.monotonic() - began)
    return {"stop": times}


def output(size, last, command, *patterns):
    """How fast a given number of bytes is taken, until the last are there, and the processor time of this process for them."""
    size = int(size)
    before = time.process_time()
    began = time.monotonic()
    session = spawn(command, patterns)
    until("its last bytes", lambda: session.output_buffer.endswith(last), 600.0)
    took = time.monotonic() - began
    spent = time.process_time() - before
    told = []
    while "completion" not in told:
        event = registry.completion_queue.get(timeout=PATIENCE)
        if event["session_id"] == session.id:
            told.append(event["type"])
    if told.count("watch_match") != (1 if patterns else 0):
        raise RuntimeError(f"it told of {told}")
    return {"rate": [size / took], "processor": [spent / (size / 1e9)]}


def memory(running):
    """The memory and the threads of a given number of running processes."""
    sleepers = [spawn(SLEEP) for _ in range(int(running))]
    found = {"memory": [resident()], "threads": [threading.active_count()]}
    stop(sleepers)
    return found


def jobs(*lines):
    """Starts jobs, says so, and waits to be killed."""
    for line in lines:
        spawn(line)
    print(json.dumps({"pids": [s.pid for s in registry._running.values()]}), flush=True)
    time.sleep(100000)


def recover(wait):
    """What a new registry knows of the jobs of one that was killed, at once and when they are over."""
    found = registry.recover_from_checkpoint()
    time.sleep(float(wait))
    announced = registry.completion_queue.qsize()
    ids = list(registry._running) + list(registry._finished)
    polled = [registry.poll(i) for i in ids]
    return {
        "recovered": [found],
        "announced": [announced],
        "codes": [sum(1 for p in polled if p.get("exit_code") is not None)],
        "kept": [sum(len(registry.read_log(i).get("output", "")) for i in ids)],
    }


def until(what, look, at_most=60.0):
    """Waits for what nothing tells of."""
    deadline = time.monotonic() + at_most
    while not look():
        if time.monotonic() > deadline:
            raise TimeoutError(f"never came: {what}")
        time.sleep(LOOK)


def timed(many, call):
    times = []
    for _ in range(many):
        began = time.monotonic()
        call()
        times.append(time.monotonic() - began)
    return times


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as text:
            return text.read().split()
    except OSError:
        return []


def stop(sessions):
    """Ends what sleeps at once: one by one, as the registry does it, would take longer than the measurement."""
    for session in sessions:
        session.process.kill()
    for session in sessions:
        session._completion_event.wait(30)


def resident():
    with open("/proc/self/statm", encoding="ascii") as text:
        return int(text.read().split()[1]) * resource.getpagesize()


def main():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65536), most))
    if sys.argv[1] in ("start", "end", "orphan", "burst", "stops", "output"):
        # What is imported at the first use, and pages touched for the first time, are not what is measured.
        for _ in range(3):
            events_until(time.monotonic() + 0.5, {spawn("true").id})
    verbs = [start, beside, burst, end, orphan, queries, stops, output, memory, jobs, recover]
    found = {verb.__name__: verb for verb in verbs}[sys.argv[1]](*sys.argv[2:])
    print(json.dumps(found), flush=True)
    # Readers of pipes that something still holds would keep the interpreter.
    os._exit(0)


main()
