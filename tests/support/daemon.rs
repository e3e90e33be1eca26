//! A daemon in a process of its own, spoken to line by line.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// A running daemon.
pub struct Daemon {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    requests: u64,
}

/// The lines of a load that stand before its response, and the response.
pub struct Replayed {
    pub updates: Vec<String>,
    pub response: Value,
}

impl Daemon {
    /// Starts one with these flags.
    pub fn start(args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sessiond"))
            .arg("serve")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output, requests: 0 }
    }

    /// The same for an unmodified ACP client with these capabilities.
    pub fn acp(args: &[&str], capabilities: Value) -> Self {
        let mut daemon = Self::start(args);
        let hello =
            daemon.call("initialize", json!({"protocolVersion": 1, "clientCapabilities": capabilities}));
        assert_eq!(hello["result"]["agentCapabilities"]["_meta"]["sessiond"]["dialect"], "acp");
        daemon
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn send_line(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_bytes()).unwrap();
        input.write_all(b"\n").unwrap();
    }

    /// Sends a request; its id.
    pub fn send(&mut self, method: &str, params: Value) -> u64 {
        self.requests += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.requests, "method": method, "params": params});
        self.send_line(&request.to_string());
        self.requests
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.send_line(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// The next line, without its end.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "the daemon has ended");
        assert_eq!(line.pop(), Some('\n'));
        line
    }

    /// The next line is the response to that request.
    pub fn response(&mut self, id: u64) -> Value {
        let line = self.line();
        let response: Value = serde_json::from_str(&line).unwrap();
        assert!(response["id"] == id && response.get("method").is_none(), "{line}");
        response
    }

    /// The response to a request that causes no notification.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.response(id)
    }

    /// The same, which must succeed.
    pub fn ok(&mut self, method: &str, params: Value) -> Value {
        let mut response = self.call(method, params);
        assert!(response.get("error").is_none(), "{response}");
        response["result"].take()
    }

    /// The same, which must fail.
    pub fn error(&mut self, method: &str, params: Value) -> Value {
        let mut response = self.call(method, params);
        assert!(response.get("result").is_none(), "{response}");
        response["error"].take()
    }

    /// What comes up to the response of that load; each line before it is an update of that session.
    pub fn replayed(&mut self, id: u64, session: &str) -> Replayed {
        let head = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":{},\"update\":",
            json!(session)
        );
        let mut updates = Vec::new();
        loop {
            let line = self.line();
            match line.strip_prefix(&head).and_then(|rest| rest.strip_suffix("}}")) {
                Some(update) => updates.push(update.to_owned()),
                None => {
                    let response: Value = serde_json::from_str(&line).unwrap();
                    assert!(response["id"] == id && response.get("method").is_none(), "{line}");
                    return Replayed { updates, response };
                }
            }
        }
    }

    /// Loads a session as ACP does; nothing of it comes after the response.
    pub fn load(&mut self, session: &str) -> Vec<String> {
        let id = self.send("session/load", json!({"sessionId": session, "cwd": "/", "mcpServers": []}));
        let Replayed { updates, response } = self.replayed(id, session);
        assert!(response.get("error").is_none(), "{session}: {response}");
        self.is_silent();
        updates
    }

    /// The next line answers the next request: nothing was on its way.
    pub fn is_silent(&mut self) {
        let error = self.error("_nothing", json!({}));
        assert_eq!(error["code"], -32601);
    }

    /// Ends it by its input's end, which it does quietly.
    pub fn end(mut self) {
        drop(self.input.take());
        let mut rest = String::new();
        assert_eq!(self.output.read_line(&mut rest).unwrap(), 0, "{rest}");
        assert!(self.child.wait().unwrap().success());
    }

    /// Bytes of memory that it holds, where the system says so.
    pub fn resident(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kb| kb << 10)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
