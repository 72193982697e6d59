"""The calls that a scripted model makes of the tools of Outlast, in each set of tools and in the form that a client wants them."""

import json

UNKNOWN = "proc_000000000000"


class Native:
    """The `native` tools. Their names begin with the prefix that the client puts there."""

    def __init__(self, prefix=""):
        self.prefix = prefix

    def call(self, tool, arguments):
        return {"tool": self.prefix + tool, "arguments": arguments}

    def start(self, command):
        """Starts a command that keeps running."""
        return self.call("run", {"command": command, "wait_seconds": 0})

    def run(self, command):
        """Runs a command with the wait that is usual."""
        return self.call("run", {"command": command})

    def wait(self, command, seconds):
        """Runs a command and waits for it as long as this."""
        return self.call("run", {"command": command, "wait_seconds": seconds})

    def look(self):
        """Another call, which is not `notices`."""
        return self.call("run", {"command": "echo ok"})

    def list(self):
        return self.call("list", {})

    def others(self):
        """Calls whose answers are the result of a command, a list, and an error."""
        return [self.look(), self.list(), self.call("log", {"process": UNKNOWN})]


class Hermes(Native):
    """The answers of this set are always JSON."""

    def start(self, command):
        return self.call("terminal", {"command": command, "background": True, "notify_on_complete": True})

    def run(self, command):
        return self.call("terminal", {"command": command})

    def wait(self, command, seconds):
        return self.call("terminal", {"command": command, "timeout": seconds})

    def look(self):
        return self.run("echo ok")

    def list(self):
        return self.call("process", {"action": "list"})

    def others(self):
        return [self.look(), self.list(), self.call("process", {"action": "log", "session_id": UNKNOWN})]


class Codex(Native):
    """Its tools are in a namespace. There is no list."""

    def call(self, tool, arguments):
        return {"tool": tool, "namespace": "mcp__outlast", "arguments": arguments}

    def start(self, command):
        return self.call("exec_command", {"cmd": command, "yield_time_ms": 250})

    def run(self, command):
        return self.call("exec_command", {"cmd": command})

    def wait(self, command, seconds):
        return self.call("exec_command", {"cmd": command, "yield_time_ms": 1000 * seconds})

    def look(self):
        return self.run("echo ok")

    def list(self):
        return self.run("echo again")

    def others(self):
        return [self.look(), self.run("exit 3"), self.call("write_stdin", {"session_id": 7, "chars": ""})]


class Smolagents(Native):
    """smolagents refuses a call without an argument, also if the schema does not require it."""

    USUAL = {
        "run": {"cwd": ".", "env": {}, "input": False, "max_output_tokens": 1000, "name": "a", "notify": True, "pty": False, "timeout_seconds": 600,
                "wait_seconds": 10, "watch": []},
        "log": {"limit": 10, "max_output_tokens": 1000, "offset": 0},
    }

    def call(self, tool, arguments):
        return super().call(tool, {**self.USUAL.get(tool, {}), **arguments})


class Vibe(Native):
    """Vibe's model calls tools in a program, whose value is the tool's answer. Of an error that the program does not catch, Vibe shows the text twice."""

    def call(self, tool, arguments):
        call = f"tools.mcp_outlast.{tool}({json.dumps(arguments)}).catch(error => error.message)"
        return {"tool": "run_typescript", "arguments": {"code": f"async function main() {{ return await {call}; }}"}}
