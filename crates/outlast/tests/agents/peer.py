"""A program that is spoken to with JSON-RPC, one message a line: an agent over ACP, or Codex's app-server."""

import json
import queue
import subprocess
import threading

PATIENCE = 120


class Peer:
    """Started in a world, ended with it."""

    def __init__(self, world, argv, answers, env=None):
        self.said = world.path(f"peer-{len(world.children)}.log")
        self.child = world.start(argv, env=env or {}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(self.said, "w"), text=True)
        self.answers, self.next, self.waiting, self.lock = answers, 0, {}, threading.Lock()
        self.heard = queue.Queue()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.child.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                continue  # Some print other things, too.
            if not isinstance(message, dict):
                continue
            if "method" in message and "id" in message:
                self.reply(message)
            elif "method" in message:
                self.heard.put(message)
            elif message.get("id") in self.waiting:
                self.waiting.pop(message["id"]).put(message)
        for one in list(self.waiting.values()):
            one.put({"error": {"message": "it ended"}})

    def errors(self):
        with open(self.said, errors="replace") as file:
            return file.read()[-1500:]

    def reply(self, message):
        result = self.answers(message["method"], message.get("params") or {})
        known = {"error": {"code": -32601, "message": "this client cannot do that"}} if result is None else {"result": result}
        self.send({"id": message["id"], **known})

    def send(self, message):
        with self.lock:
            try:
                self.child.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
                self.child.stdin.flush()
            except BrokenPipeError:
                pass  # Told by the end of its output.

    def begin(self, method, params):
        """Sends a request; what it returns waits for the answer."""
        self.next += 1
        number, answer = self.next, queue.Queue()
        self.waiting[number] = answer
        self.send({"id": number, "method": method, "params": params})

        def wait(seconds=PATIENCE):
            try:
                message = answer.get(timeout=seconds)
            except queue.Empty:
                raise AssertionError(f"no answer to {method} in {seconds} s: {self.errors()}") from None
            assert "error" not in message, f"{method}: {message['error']}: {self.errors()}"
            return message["result"]

        return wait

    def call(self, method, params, seconds=PATIENCE):
        return self.begin(method, params)(seconds)


def allow(method, params):
    """An answer that allows what an ACP agent asks for."""
    if method != "session/request_permission":
        return None
    kinds = {one["kind"]: one["optionId"] for one in params["options"]}
    chosen = kinds.get("allow_always") or kinds.get("allow_once")
    return {"outcome": {"outcome": "selected", "optionId": chosen} if chosen else {"outcome": "cancelled"}}


class Acp:
    """An agent that speaks ACP, with any number of sessions."""

    def __init__(self, world, argv, env=None):
        self.world, self.peer = world, Peer(world, argv, allow, env)
        self.peer.call("initialize", {"protocolVersion": 1, "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
                                      "clientInfo": {"name": "judge", "version": "1"}})

    def open(self, _name):
        return AcpSession(self.peer, self.peer.call("session/new", {"cwd": self.world.path("work"), "mcpServers": []})["sessionId"])


class AcpSession:
    def __init__(self, peer, session):
        self.peer, self.id = peer, session

    def begin(self, prompt):
        """Starts a turn; what it returns waits for its end."""
        return self.peer.begin("session/prompt", {"sessionId": self.id, "prompt": [{"type": "text", "text": prompt}]})


class AppServer:
    """Codex's app-server, with any number of threads."""

    def __init__(self, world, argv):
        self.world, self.peer = world, Peer(world, argv, lambda *_: None)
        self.peer.call("initialize", {"clientInfo": {"name": "judge", "title": "judge", "version": "1"}, "capabilities": {"experimentalApi": True}})
        self.peer.send({"method": "initialized"})

    def open(self, _name):
        return CodexThread(self.peer, self.peer.call("thread/start", {"cwd": self.world.path("work")})["thread"]["id"])

    def resume(self, thread):
        self.peer.call("thread/resume", {"threadId": thread.id, "excludeTurns": True})
        return CodexThread(self.peer, thread.id)


class CodexThread:
    def __init__(self, peer, thread):
        self.peer, self.id = peer, thread

    def begin(self, prompt):
        turn = self.peer.call("turn/start", {"threadId": self.id, "input": [{"type": "text", "text": prompt}]})["turn"]["id"]

        def wait(seconds=PATIENCE):
            while True:
                try:
                    message = self.peer.heard.get(timeout=seconds)
                except queue.Empty:
                    raise AssertionError(f"the turn did not end: {self.peer.errors()}") from None
                params = message.get("params") or {}
                if message["method"] == "turn/completed" and params["turn"]["id"] == turn:
                    return params

        return wait
