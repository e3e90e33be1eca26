//! Every request whose answer does not grow with the log, at the end, in the middle and in the past of a long one.

use super::{Bench, Meter, message, result};

/// So often each is asked; the least of its counts is what it costs, without what happens now and then.
const TIMES: u64 = 3;
/// Requests that are counted together, so that what happens now and then counts.
const MANY: u64 = 2_048;

fn with_session(session: &str, event: &str) -> String {
    format!(r#"{{"sessionId":"{session}",{}"#, &event[1..])
}

fn replacing(seq: u64, node: u64) -> String {
    let op =
        format!(r#""surfaceOp":{{"op":"replace","start":{node},"end":{node}}},"sourceEventSeqs":[{node}]"#);
    message(seq).replace(r#""surfaceOp":"append""#, &op)
}

impl Bench {
    /// Asks once, counted; the answer must, or must not, be an error.
    fn probe(
        &mut self,
        meter: &mut dyn Meter,
        name: &str,
        (method, params): (&str, &str),
        fails: bool,
    ) -> String {
        let line = self.line(method, params);
        let mut said = String::new();
        meter.count(name, &mut || said = self.carry_out(&line));
        assert_eq!(said.contains("\"error\":"), fails, "{name}: {}", &said[..said.len().min(400)]);
        said
    }

    fn ok(&mut self, meter: &mut dyn Meter, name: &str, method: &str, params: &str) -> String {
        self.probe(meter, name, (method, params), false)
    }

    fn refused(&mut self, meter: &mut dyn Meter, name: &str, method: &str, params: &str) {
        self.probe(meter, name, (method, params), true);
    }

    fn appended(&mut self, meter: &mut dyn Meter, name: &str, session: &str, event: &str) {
        self.ok(meter, name, "session/append", &with_session(session, event));
        *self.next.get_mut(session).unwrap() += 1;
    }

    pub fn ask_everything(&mut self, meter: &mut dyn Meter) {
        for time in 0..TIMES {
            self.appends(meter, time);
            self.surfaces(meter, time);
            self.reads(meter);
            self.openings(meter, time);
            self.calls(meter, time);
            self.sessions(meter, time);
        }
        for time in 0..TIMES {
            self.payloads(meter, time);
        }
        self.many_appends(meter);
    }

    fn appends(&mut self, meter: &mut dyn Meter, time: u64) {
        let note = r#"{"type":"x/note","data":{"n":1},"ignorable":true}"#;
        let middle = self.size / 2 + time;
        self.appended(meter, "append", "log", note);
        let next = self.next["log"];
        self.appended(meter, "append a message", "log", &message(next));
        let expected = format!(r#"{{"expectedSeq":{},{}"#, self.next["log"], &note[1..]);
        self.appended(meter, "append with expectedSeq", "log", &expected);
        let again = format!(r#"{{"expectedSeq":{middle},{}"#, &message(middle)[1..]);
        let said = self.ok(meter, "append again", "session/append", &with_session("log", &again));
        assert!(said.contains("\"duplicate\":true"), "{said}");
        let other = format!(r#"{{"expectedSeq":{middle},{}"#, &note[1..]);
        self.refused(meter, "append refused, SEQ_CONFLICT", "session/append", &with_session("log", &other));
        let bad = r#"{"type":"x/note","data":{}}"#;
        self.refused(meter, "append refused, unknown type", "session/append", &with_session("log", bad));
        let batch = format!(r#"{{"sessionId":"log","events":[{}]}}"#, [note; 10].join(","));
        self.ok(meter, "append_batch of 10", "session/append_batch", &batch);
        *self.next.get_mut("log").unwrap() += 10;
        let events: Vec<String> = (middle..middle + 10).map(message).collect();
        let again =
            format!(r#"{{"sessionId":"log","expectedSeq":{middle},"events":[{}]}}"#, events.join(","));
        let said = self.ok(meter, "append_batch of 10 again", "session/append_batch", &again);
        assert!(said.contains("\"duplicate\":true"), "{said}");
        let last = format!(r#"{{"sessionId":"log","events":[{},{bad}]}}"#, [note; 9].join(","));
        self.refused(meter, "append_batch refused at its last", "session/append_batch", &last);
    }

    fn surfaces(&mut self, meter: &mut dyn Meter, time: u64) {
        // A log of its own, so that what others ask of the past of "log" has no replacement before it.
        if time == 0 {
            self.ask("session/fork", r#"{"sessionId":"log","childSessionId":"rewritten"}"#);
            let next = self.info("rewritten", "nextSeq");
            self.next.insert("rewritten".to_owned(), next);
        }
        let (last, middle) = (self.size - 1 - time, self.size / 2 + time);
        let event = replacing(self.next["rewritten"], last);
        self.appended(meter, "replace near the end", "rewritten", &event);
        let event = replacing(self.next["rewritten"], middle);
        self.appended(meter, "replace in the middle", "rewritten", &event);
        let event = replacing(self.next["rewritten"], time);
        self.appended(meter, "replace at the beginning", "rewritten", &event);
        let node = self.next["replaced"] - 1;
        let event = replacing(self.next["replaced"], node);
        self.appended(meter, "replace after many", "replaced", &event);
        let event = replacing(self.next["rewritten"], middle);
        self.refused(
            meter,
            "replace refused, node gone",
            "session/append",
            &with_session("rewritten", &event),
        );
    }

    fn reads(&mut self, meter: &mut dyn Meter) {
        let size = self.size;
        let middle = size / 2;
        let page = format!(r#"{{"sessionId":"log","fromSeq":{middle},"limit":10}}"#);
        self.ok(meter, "events in the middle", "session/events", &page);
        let page = format!(r#"{{"sessionId":"log","toSeq":{middle},"reverse":true,"limit":10}}"#);
        self.ok(meter, "events in reverse", "session/events", &page);
        for (name, of_type) in
            [("is not there", "todo/write"), ("is rare", "user/message"), ("has no kind and is rare", "x/y")]
        {
            let page = format!(r#"{{"sessionId":"few","types":["{of_type}"],"limit":10}}"#);
            self.ok(meter, &format!("events of a type that {name}"), "session/events", &page);
            let back = page.replace('}', r#","reverse":true}"#);
            self.ok(meter, &format!("events of a type that {name}, in reverse"), "session/events", &back);
        }
        let page = format!(r#"{{"sessionId":"log","fromSeq":{middle},"limit":10}}"#);
        self.ok(meter, "inspect in the middle", "session/inspect", &page);
        let length = self.info("log", "surfaceLength");
        let since =
            format!(r#"{{"sessionId":"log","since":{{"replaceGeneration":0,"count":{}}}}}"#, length - 2);
        self.ok(meter, "messages since", "session/messages", &since);
        for (name, at) in [("early", 3), ("middle", middle), ("late", size - 1)] {
            let count = (at + 1).saturating_sub(2);
            let since = format!(
                r#"{{"sessionId":"log","throughSeq":{at},"since":{{"replaceGeneration":0,"count":{count}}}}}"#
            );
            self.ok(meter, &format!("messages since, {name} in the past"), "session/messages", &since);
        }
        let start = r#"{"sessionId":"log","since":{"replaceGeneration":0,"count":0},"maxBytes":1000}"#;
        self.ok(meter, "messages, first page", "session/messages", start);
        let count = middle;
        let page = format!(
            r#"{{"sessionId":"log","since":{{"replaceGeneration":0,"count":{count}}},"maxBytes":1000}}"#
        );
        self.ok(meter, "messages, a page in the middle", "session/messages", &page);
        self.ok(meter, "surface in the past", "session/surface", r#"{"sessionId":"log","throughSeq":5}"#);
        for method in ["session/messages", "session/surface", "session/request"] {
            self.ok(meter, &format!("{method} of few messages"), method, r#"{"sessionId":"few"}"#);
            let past = format!(r#"{{"sessionId":"few","throughSeq":{middle}}}"#);
            self.ok(meter, &format!("{method} of few messages in the past"), method, &past);
            let one = r#"{"sessionId":"replaced"}"#;
            self.ok(meter, &format!("{method} of one message, often replaced"), method, one);
        }
        for session in ["log", "few", "turn", "replaced", "results"] {
            let params = format!(r#"{{"sessionId":"{session}"}}"#);
            self.ok(meter, &format!("info of {session}"), "session/info", &params);
        }
        self.ok(meter, "info with open calls", "session/info", r#"{"sessionId":"calls"}"#);
        self.ok(meter, "info with odd call ids", "session/info", r#"{"sessionId":"odd"}"#);
    }

    fn openings(&mut self, meter: &mut dyn Meter, time: u64) {
        let middle = self.size / 2;
        let end = format!(r#"{{"sessionId":"log","childSessionId":"end{time}"}}"#);
        self.ok(meter, "fork at the end", "session/fork", &end);
        let past = format!(r#"{{"sessionId":"log","childSessionId":"past{time}","boundary":{middle}}}"#);
        self.ok(meter, "fork in the past", "session/fork", &past);
        let clip = format!(r#"{{"sessionId":"turn","childSessionId":"clip{time}","onOpenTurn":"clip"}}"#);
        self.ok(meter, "fork clipped before a long turn", "session/fork", &clip);
        self.refused(meter, "fork refused, OPEN_TURN", "session/fork", r#"{"sessionId":"turn"}"#);
        let boundary = r#"{"sessionId":"log","boundary":9007199254740991}"#;
        self.refused(meter, "fork refused, INVALID_BOUNDARY", "session/fork", boundary);
        self.refused(meter, "snapshot refused, OPEN_TURN", "session/snapshot", r#"{"sessionId":"turn"}"#);
        let short = r#"{"sessionId":"log","boundary":5}"#;
        self.ok(meter, "snapshot of a short prefix", "session/snapshot", short);
        let start = r#"{"sessionId":"few","type":"turn/start","data":{"turn":1}}"#;
        self.ask("session/append", start);
        self.ok(meter, "interrupt", "session/interrupt", r#"{"sessionId":"few"}"#);
        self.ok(meter, "interrupt without a turn", "session/interrupt", r#"{"sessionId":"few"}"#);
        for (name, session) in [("fork", format!("end{time}")), ("fork of the past", format!("past{time}"))] {
            let params = format!(r#"{{"sessionId":"{session}"}}"#);
            self.ok(
                meter,
                &format!("append to a {name}"),
                "session/append",
                &with_session(&session, r#"{"type":"x/note","data":1,"ignorable":true}"#),
            );
            self.ok(meter, &format!("flush a {name}"), "session/flush", &params);
            self.ok(meter, &format!("close a {name}"), "session/close", &params);
            self.ok(meter, &format!("load a {name} from memory"), "session/load", &params);
            self.ok(meter, &format!("delete a {name}"), "session/delete", &params);
        }
    }

    fn calls(&mut self, meter: &mut dyn Meter, time: u64) {
        let call = |n: u64| {
            format!(
                r#"{{"type":"tool/call","data":{{"turn":1,"step":1,"callId":"c{n}","name":"n","arguments":"{{}}"}}}}"#
            )
        };
        let some = self.size / 2 + time;
        self.appended(meter, "call among many open ones", "calls", &call(some));
        let answer = result(&format!("c{some}"), "x", r#""surfaceOp":"append""#);
        self.appended(meter, "result among many open calls", "calls", &answer);
        let next = self.next["odd"];
        self.appended(meter, "message with a call id seen often", "odd", &super::calling("same", next));
        // Results stand at odd seqs.
        let seq = (self.size / 2 + 2 * time) | 1;
        let op =
            format!(r#""surfaceOp":{{"op":"replace","start":{seq},"end":{seq}}},"sourceEventSeqs":[{seq}]"#);
        let rewrite = result(&format!("c{}", seq - 1), "shorter", &op);
        self.appended(meter, "rewrite of a tool result", "results", &rewrite);
    }

    fn sessions(&mut self, meter: &mut dyn Meter, time: u64) {
        let name = format!("new{time}");
        let params = format!(r#"{{"sessionId":"{name}"}}"#);
        self.ok(meter, "new among many sessions", "session/new", &params);
        let append = with_session(
            &format!("s{}", self.size.min(super::MOST_SESSIONS) / 2),
            r#"{"type":"x/note","data":1,"ignorable":true}"#,
        );
        self.ok(meter, "append among many sessions", "session/append", &append);
        self.ok(meter, "close among many sessions", "session/close", &params);
        self.refused(meter, "info of a session that is not live", "session/info", &params);
        self.ok(meter, "delete among many sessions", "session/delete", &params);
        self.ok(meter, "list a page", "session/list", r#"{"limit":10}"#);
    }

    /// Payloads with so many members; counted for one of them.
    fn payloads(&mut self, meter: &mut dyn Meter, time: u64) {
        let size = self.size;
        // Of one width, so that each takes as many bytes whatever the size.
        let numbers: Vec<String> = (1_000_000..1_000_000 + size).map(|n| n.to_string()).collect();
        let seqs: Vec<String> = (0..size).map(|n| n.to_string()).collect();
        let keys: Vec<String> = (0..size).map(|n| format!("\"k{n:07}\":1")).collect();
        let deep = size.min(990);
        let nests = format!("{}1{}", "[".repeat(deep as usize), "]".repeat(deep as usize));
        let nested = vec![nests; (size / deep) as usize].join(",");
        let payloads = [
            ("member of an object", format!("{{{}}}", keys.join(","))),
            ("number", format!("[{}]", numbers.join(","))),
            ("escape", format!("\"{}\"", "\\u00e9\\n".repeat(size as usize / 2))),
            ("level of nesting", format!("[{nested}]")),
        ];
        if time == 0 {
            self.open("payloads");
        }
        for (name, data) in payloads {
            let event = format!(r#"{{"type":"x/note","data":{data},"ignorable":true}}"#);
            self.appended(meter, &format!("append, each {name}"), "payloads", &event);
            let last = self.next["payloads"] - 1;
            let again = format!(r#"{{"expectedSeq":{last},{}"#, &event[1..]);
            let name = format!("append again, each {name}");
            self.ok(meter, &name, "session/append", &with_session("payloads", &again));
        }
        let next = self.next["log"];
        let op = format!(r#""surfaceOp":"append","sourceEventSeqs":[{}]"#, seqs.join(","));
        let citing = message(next).replace(r#""surfaceOp":"append""#, &op);
        self.appended(meter, "append, each of sourceEventSeqs", "log", &citing);
        if time == 0 {
            self.ask("session/fork", r#"{"sessionId":"log","childSessionId":"compacted"}"#);
            self.next.insert("compacted".to_owned(), next + 2);
        }
        let part = size / TIMES;
        let (start, end) = (time * part, (time + 1) * part - 1);
        let nodes: Vec<String> = (start..=end).map(|node| node.to_string()).collect();
        let op = format!(
            r#""surfaceOp":{{"op":"replace","start":{start},"end":{end}}},"sourceEventSeqs":[{}]"#,
            nodes.join(",")
        );
        let compaction = message(self.next["compacted"]).replace(r#""surfaceOp":"append""#, &op);
        self.appended(meter, "replace, each of many nodes", "compacted", &compaction);
    }

    /// With what is done now and then: full segments, checkpoints.
    fn many_appends(&mut self, meter: &mut dyn Meter) {
        for session in ["log", "calls", "odd", "rewritten"] {
            let lines: Vec<String> = (0..MANY)
                .map(|n| {
                    let event = message(self.next[session] + n);
                    self.line("session/append", &with_session(session, &event))
                })
                .collect();
            meter.count(&format!("{MANY} appends to {session}"), &mut || {
                for line in &lines {
                    self.carry_out(line);
                }
            });
        }
    }
}
