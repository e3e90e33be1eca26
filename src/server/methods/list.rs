//! `session/list`: live and stored sessions, newest last event first.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;

use crate::json::{Json, Type, quote};
use crate::log::{Header, active_at, active_until, iso8601};
use crate::protocol::Dialect;
use crate::protocol::RawJson;
use crate::protocol::WireError;
use crate::protocol::params::ListParams;
use crate::protocol::results::{Face, ListResult, LockedBy, SessionInfo, Status};
use crate::server::call::{Answer, CallError};
use crate::server::service::{Service, bad_param};
use crate::session::{Mended, Session};
use crate::store::SamePlace;
use crate::store::storage::{Behind, ListFacts, ListPage, ListQuery, Request, RowKey, StoredInfo};

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
        let filters = Filters { with_empty: params.include_empty == Some(true), cwd: params.cwd.clone() };
        let behind = params.cursor.as_deref().map(|cursor| read_cursor(cursor, &filters)).transpose()?;
        if params.cwd.as_deref().is_some_and(|cwd| !cwd.starts_with('/')) {
            return Err(bad_param("cwd", "cwd must be an absolute path; write it from / on").into());
        }
        if params.limit == Some(0) {
            return Err(bad_param("limit", "limit must be at least 1").into());
        }
        let place = params.cwd.as_deref().map(|cwd| Box::new(self.ask_of_live(cwd)));
        if params.live == Some(true) {
            let Some(place) = place else { return Ok(self.live_list(None)) };
            let look_up = |reply| Request::LookUp { place, reply };
            return Err(CallError::need(look_up, |service, place| Ok(service.live_list(Some(&*place?)))));
        }
        let limit =
            usize::try_from(params.limit.unwrap_or(self.settings.wire.page_entries)).unwrap_or(usize::MAX);
        let moment = behind.as_ref().map(|behind| behind.moment);
        let query = Box::new(ListQuery {
            vocabulary: self.store.vocabulary().clone(),
            place,
            // One more tells that there are more.
            most: limit.saturating_add(1),
            with_empty: filters.with_empty,
            now: self.settings.clock.gone().saturating_add(1),
            moved: moment.map(|moment| self.moved(moment)).unwrap_or_default(),
            behind,
        });
        let list = |reply| Request::List { query, reply };
        Err(CallError::need(list, move |service, page| Ok(service.list_page(page?, &filters, limit))))
    }

    /// The live sessions, in the order of creation.
    fn live_list(&self, place: Option<&SamePlace>) -> Face<ListResult> {
        let rows = self.store.sessions().map(live_row).map(|row| row.info);
        let rows = rows.filter(|info| is_there(info, place));
        self.list_face(ListResult { sessions: rows.collect(), next_cursor: None })
    }

    /// A page of what is stored and what is live.
    fn list_page(
        &mut self,
        ListPage { sessions: stored, query }: ListPage,
        filters: &Filters,
        limit: usize,
    ) -> Face<ListResult> {
        // Where a session is live, what is stored of it is older.
        let is_live = |info: &StoredInfo| info.place.is_empty() && self.store.session(&info.id).is_ok();
        let stored = stored.into_iter().filter(|info| !is_live(info));
        let mut rows: Vec<Row> = stored.map(stored_row).collect();
        rows.extend(self.live_rows(&query));
        rows.sort_by(|a, b| key(b).cmp(&key(a)));
        let fitting = self.fitting(&rows, limit);
        let more = rows.len() > fitting;
        rows.truncate(fitting);
        // The list is of the moment when its first page was asked for, or of its first row, should that be later.
        let first = rows.first().map_or(i64::MIN, |row| row.time);
        let moment = query.behind.as_ref().map(|behind| behind.moment);
        let moment = moment.unwrap_or_else(|| query.now.saturating_sub(1).max(first));
        if more && query.behind.is_none() {
            // What comes from now on is behind it.
            self.settings.clock.outlast(moment);
            self.forget_time();
        }
        let next_cursor = rows.last().filter(|_| more).map(|row| write_cursor(row, moment, filters));
        let sessions = rows.into_iter().map(|row| row.info).collect();
        self.list_face(ListResult { sessions, next_cursor })
    }

    /// Of the live sessions with an activity behind that moment, the last one before.
    fn moved(&mut self, moment: i64) -> HashMap<String, Option<i64>> {
        let until = |session: &Session| {
            (session.id().as_str().to_owned(), active_until(session.history().log(), moment))
        };
        self.store.active_after(moment).map(until).collect()
    }

    /// The live sessions that may be on the page.
    fn live_rows(&mut self, query: &ListQuery) -> Vec<Row> {
        let shown = |row: &Row| {
            (query.with_empty || !row.empty)
                && is_there(&row.info, query.place.as_deref())
                && !query.is_new(row.info.created_at)
        };
        let key_of = query.behind.as_ref().map(|behind| (behind.time, &*behind.id));
        let recent = self.store.recent(key_of, query.with_empty).map(live_row).filter(shown);
        let mut rows: Vec<Row> = recent.take(query.most).collect();
        let Some(behind) = &query.behind else { return rows };
        // Some may have moved since the page was asked for.
        for (id, active) in self.moved(behind.moment) {
            let Ok(session) = self.store.session(&id) else { continue };
            let mut row = live_row(session);
            row.time = active_at(session.header(), active);
            if key(&row) < behind.key() && shown(&row) {
                rows.push(row);
            }
        }
        rows
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

/// Of rows with one time and id, the session of that id comes first.
fn key(row: &Row) -> RowKey<'_> {
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
    let time = stored.time();
    let info =
        stored.header.as_ref().map_or_else(|| blank(String::new()), |header| row(header, &stored.facts).info);
    // The id under which it is found, whatever its header says: that one may be another session's.
    let info = SessionInfo {
        session_id: stored.id,
        locked_by: stored.locked_by.map(Into::into),
        status: stored.status.into(),
        reason: stored.reason,
        ..info
    };
    Row { time, place: stored.place, empty: false, info }
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
        locked_by: None,
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
        #[serde(skip_serializing_if = "Option::is_none")]
        locked_by: Option<&'a LockedBy>,
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
                locked_by: info.locked_by.as_ref(),
                status: info.status,
                reason: info.reason.as_deref(),
            },
        },
    };
    RawJson::from_text(serde_json::to_string(&row).unwrap_or_default())
}

/// What a list is limited to. Its cursors are good for such a list only.
#[derive(PartialEq)]
struct Filters {
    with_empty: bool,
    cwd: Option<String>,
}

/// The place after a row: the very key that sorts it, the list's moment, and what the list is limited to.
fn write_cursor(row: &Row, moment: i64, filters: &Filters) -> String {
    let (time, id, place) = (row.time, quote(&row.info.session_id), quote(&row.place));
    let cwd = filters.cwd.as_deref().map_or_else(|| "null".to_owned(), quote);
    let with_empty = filters.with_empty;
    URL_SAFE_NO_PAD.encode(format!("[{time},{id},{moment},{place},{with_empty},{cwd}]"))
}

fn read_cursor(cursor: &str, of: &Filters) -> Result<Behind, WireError> {
    let bad = || bad_param("cursor", "cursor is none of this list's; start again without one");
    let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| bad())?;
    let text = String::from_utf8(bytes).map_err(|_| bad())?;
    let (json, _) = Json::parse(&text).map_err(|_| bad())?;
    let text = |json: Json<'_>| json.as_str().and_then(|text| text.decode()).map(Cow::into_owned);
    let read = || {
        let mut parts = json.elements();
        let (time, id) = (parts.next()?.as_safe_int()?, text(parts.next()?)?);
        let (moment, place) = (parts.next()?.as_safe_int()?, text(parts.next()?)?);
        let with_empty = parts.next()?.text() == "true";
        let cwd = parts.next().filter(|cwd| cwd.kind() != Type::Null).map(text);
        Some((Behind { time, id, place, moment }, Filters { with_empty, cwd: cwd.flatten() }))
    };
    match read() {
        Some((behind, filters)) if filters == *of => Ok(behind),
        Some(_) => {
            Err(bad_param("cursor", "cursor is of a list with other filters; start again without one"))
        }
        None => Err(bad()),
    }
}
