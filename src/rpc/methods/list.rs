//! `session/list`: live and stored sessions, newest last event first.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;

use crate::json::{Json, quote};
use crate::log::{Header, active_at};
use crate::rpc::ambient::iso8601;
use crate::rpc::connection::Dialect;
use crate::rpc::error::{Code, WireError};
use crate::rpc::params::ListParams;
use crate::rpc::paths::SamePlace;
use crate::rpc::raw::RawJson;
use crate::rpc::results::{Face, ListResult, SessionInfo, Status};
use crate::rpc::service::{Answer, Service, Stop, bad_param};
use crate::rpc::storage::{Job, JobResult, ListFacts, ListPage, Listed, StoredInfo};
use crate::session::{Mended, Session};

/// A session with the key that sorts it: time of the last event that counts as activity, else creation.
struct Row {
    time: i64,
    /// Of [`StoredInfo::place`]: tells rows of one time and id apart.
    place: String,
    empty: bool,
    info: SessionInfo,
}

impl Service {
    pub(super) fn list(&mut self, params: ListParams) -> Answer<Face<ListResult>> {
        let cursor = params.cursor.as_deref().map(read_cursor).transpose()?;
        if params.cwd.as_deref().is_some_and(|cwd| !cwd.starts_with('/')) {
            return Err(bad_param("cwd", "cwd must be an absolute path; write it from / on").into());
        }
        if params.limit == Some(0) {
            return Err(bad_param("limit", "limit must be at least 1").into());
        }
        let place = params.cwd.as_deref().map(|cwd| Box::new(self.ask_of_live(cwd)));
        if params.live == Some(true) {
            let place = match place.map(|place| self.wait_for(|| Job::LookUp(place))).transpose()? {
                None => None,
                Some(JobResult::LookedUp(place)) => Some(place),
                Some(_) => return Err(no_list()),
            };
            let rows = self.store.sessions().map(live_row).map(|row| row.info);
            let rows = rows.filter(|info| is_there(info, place.as_deref()));
            return Ok(self.list_face(ListResult { sessions: rows.collect(), next_cursor: None }));
        }
        let limit =
            usize::try_from(params.limit.unwrap_or(self.settings.wire.page_entries)).unwrap_or(usize::MAX);
        let page = ListPage {
            behind: cursor.as_ref().map(|(time, id, _)| (*time, id.clone())),
            // One more tells that there are more.
            most: limit.saturating_add(1),
            with_empty: params.include_empty == Some(true),
        };
        let vocabulary = self.store.vocabulary().clone();
        let job = || Job::List { vocabulary, place, page: page.clone() };
        let Listed { sessions: stored, place } = match self.wait_for(job)? {
            JobResult::Listed(listed) => listed?,
            _ => return Err(no_list()),
        };
        let shown = |row: &Row| (page.with_empty || !row.empty) && is_there(&row.info, place.as_deref());
        // One for each id and place; where a session is live, what is stored of it is older.
        let stored: HashMap<_, _> =
            stored.into_iter().map(|info| ((info.id.clone(), info.place.clone()), info)).collect();
        let is_live = |info: &StoredInfo| info.place.is_empty() && self.store.session(&info.id).is_ok();
        let stored = stored.into_values().filter(|info| !is_live(info));
        let mut rows: Vec<Row> = stored.map(stored_row).filter(shown).collect();
        if let Some((time, id, place)) = &cursor {
            rows.retain(|row| key(row) < (*time, id, Reverse(place)));
        }
        let behind = page.behind.as_ref().map(|(time, id)| (*time, &**id));
        rows.extend(self.store.recent(behind, page.with_empty).map(live_row).filter(shown).take(page.most));
        rows.sort_by(|a, b| key(b).cmp(&key(a)));
        let fitting = self.fitting(&rows, limit);
        let more = rows.len() > fitting;
        rows.truncate(fitting);
        let next_cursor = rows.last().filter(|_| more).map(write_cursor);
        let sessions = rows.into_iter().map(|row| row.info).collect();
        Ok(self.list_face(ListResult { sessions, next_cursor }))
    }

    /// That directory, to be compared with those of the live sessions.
    fn ask_of_live(&self, cwd: &str) -> SamePlace {
        let mut place = SamePlace::new(cwd, self.settings.canonical);
        self.store
            .sessions()
            .filter_map(|session| session.header().cwd.as_deref())
            .for_each(|cwd| place.ask(cwd));
        place
    }

    /// So many rows, `limit` at most, fit into one answer; one at least.
    fn fitting(&self, rows: &[Row], limit: usize) -> usize {
        /// Room for a row's members beside its texts, and for what stands around the list.
        const AROUND: usize = 512;
        let most = self.settings.wire.max_message_bytes.saturating_sub(AROUND << 2);
        let size = |row: &Row| {
            let info = &row.info;
            let texts = [&info.title, &info.cwd, &info.parent_session, &info.reason];
            let texts = texts.into_iter().flatten().chain([&info.session_id]).map(|text| quote(text).len());
            AROUND + texts.sum::<usize>()
        };
        let sizes = rows.iter().take(limit).map(size).scan(0, |sum, size| {
            *sum += size;
            Some(*sum)
        });
        sizes.take_while(|sum| *sum <= most).count().max(limit.min(1))
    }

    fn list_face(&self, list: ListResult) -> Face<ListResult> {
        if self.connection.dialect == Dialect::Native {
            return Face::Native(list);
        }
        let rows: Vec<RawJson> = list.sessions.iter().map(acp_row).collect();
        let rows = serde_json::to_string(&rows).unwrap_or_default();
        let mut root = vec![("sessions", RawJson::from_text(rows))];
        if let Some(cursor) = &list.next_cursor {
            root.push(("nextCursor", RawJson::from_text(quote(cursor))));
        }
        Face::Acp(root, None)
    }
}

/// Whether a session is of the place that was asked for, if one was.
fn is_there(info: &SessionInfo, place: Option<&SamePlace>) -> bool {
    place.is_none_or(|place| info.cwd.as_deref().is_some_and(|cwd| place.is(cwd)))
}

fn no_list() -> Stop {
    WireError::new(Code::Internal, "storage gave no list; report this").into()
}

/// Of rows with one time and id, the session of that id comes first.
fn key(row: &Row) -> (i64, &str, Reverse<&str>) {
    (row.time, &row.info.session_id, Reverse(&row.place))
}

fn live_row(session: &Session) -> Row {
    let mut row = row(session.header(), &ListFacts::of(session.history()));
    row.info.live = true;
    if let Some(Mended { cut_bytes, cut_events, is_loss: true, .. }) = session.mended() {
        row.info.status = Status::Damaged;
        row.info.reason = Some(format!(
            "it was opened without {cut_bytes} bytes of its log, which hold {cut_events} whole events: see session/info"
        ));
    }
    row
}

fn stored_row(stored: StoredInfo) -> Row {
    let mut found = match &stored.header {
        Some(header) => row(header, &stored.facts),
        None => Row { time: 0, place: String::new(), empty: false, info: blank(String::new()) },
    };
    // The id under which it is found, whatever its header says: that one may be another session's.
    found.info.session_id = stored.id;
    found.place = stored.place;
    found.info.status = stored.status;
    found.info.reason = stored.reason;
    // A damaged session may hold what is not seen: it is never left out as empty.
    found.empty &= stored.status == Status::Ok;
    found
}

fn row(header: &Header, facts: &ListFacts) -> Row {
    let time = active_at(header, facts.last_time);
    let info = SessionInfo {
        cwd: header.cwd.clone(),
        title: facts.title.clone(),
        updated_at: iso8601(time),
        created_at: header.created_at,
        parent_session: header.parent_session.clone(),
        is_seeded: header.is_seeded,
        origin: header.subagent.then(|| "subagent".to_owned()),
        ..blank(header.id.as_str().to_owned())
    };
    Row { time, place: String::new(), empty: facts.length.get() == 0, info }
}

fn blank(session_id: String) -> SessionInfo {
    SessionInfo {
        session_id,
        cwd: None,
        title: None,
        updated_at: None,
        created_at: 0,
        parent_session: None,
        is_seeded: false,
        origin: None,
        live: false,
        status: Status::Ok,
        reason: None,
    }
}

/// A row in the acp dialect: ACP's members at the root, a `cwd` always, ours under `_meta.sessiond`.
fn acp_row(info: &SessionInfo) -> RawJson {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Row<'a> {
        session_id: &'a str,
        cwd: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        updated_at: Option<&'a str>,
        #[serde(rename = "_meta")]
        ext: Meta<'a>,
    }
    #[derive(Serialize)]
    struct Meta<'a> {
        sessiond: Own<'a>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Own<'a> {
        created_at: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_session: Option<&'a str>,
        is_seeded: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        origin: Option<&'a str>,
        live: bool,
        status: Status,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
    }
    let row = Row {
        session_id: &info.session_id,
        cwd: info.cwd.as_deref().unwrap_or("/"),
        title: info.title.as_deref(),
        updated_at: info.updated_at.as_deref(),
        ext: Meta {
            sessiond: Own {
                created_at: info.created_at,
                parent_session: info.parent_session.as_deref(),
                is_seeded: info.is_seeded,
                origin: info.origin.as_deref(),
                live: info.live,
                status: info.status,
                reason: info.reason.as_deref(),
            },
        },
    };
    RawJson::from_text(serde_json::to_string(&row).unwrap_or_default())
}

/// The place after a row: the very key that sorts it, its last part left out where it is empty.
fn write_cursor(row: &Row) -> String {
    let (time, id) = (row.time, quote(&row.info.session_id));
    let place = if row.place.is_empty() { String::new() } else { format!(",{}", quote(&row.place)) };
    URL_SAFE_NO_PAD.encode(format!("[{time},{id}{place}]"))
}

fn read_cursor(cursor: &str) -> Result<(i64, String, String), WireError> {
    let bad = || bad_param("cursor", "cursor is none of this list's; start again without one");
    let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| bad())?;
    let text = String::from_utf8(bytes).map_err(|_| bad())?;
    let (json, _) = Json::parse(&text).map_err(|_| bad())?;
    let mut parts = json.elements();
    let time = parts.next().and_then(Json::as_safe_int).ok_or_else(bad)?;
    let text =
        |json: Json<'_>| json.as_str().and_then(|text| text.decode()).map(Cow::into_owned).ok_or_else(bad);
    let id = parts.next().ok_or_else(bad).and_then(text)?;
    let place = parts.next().map_or(Ok(String::new()), text)?;
    Ok((time, id, place))
}
