"""Creates a session, appends a turn and reads its messages: the native dialect, with nothing but Python's own library.

python3 examples/native.py target/release/sessiond serve --store memory:
"""

import itertools
import json
import subprocess
import sys

daemon = subprocess.Popen(
    sys.argv[1:] or ["sessiond"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
)
ids = itertools.count(1)


def call(method, **params):
    """One request and its result; what comes before the answer are notifications."""
    request = {"jsonrpc": "2.0", "id": next(ids), "method": method, "params": params}
    daemon.stdin.write(json.dumps(request) + "\n")
    daemon.stdin.flush()
    for line in daemon.stdout:
        message = json.loads(line)
        if message.get("id") != request["id"]:
            print("notified", message["method"])
        elif "error" in message:
            raise RuntimeError(message["error"])
        else:
            return message["result"]
    raise EOFError("the daemon is gone")


session = call("session/new")["sessionId"]
call("session/append", sessionId=session, type="turn/start", data={"turn": 1})
hello = {"role": "user", "content": [{"type": "text", "text": "Hi"}], "source": {"kind": "user"}}
sent = call("session/append", sessionId=session, type="user/message", data=hello, surfaceOp="append")
print("committed at", sent["seq"], "with the id", sent["messageId"])
print(call("session/messages", sessionId=session)["messages"])
daemon.stdin.close()
sys.exit(daemon.wait())
