//! Ids and working directories of any content: what names they get on disk, and that these stay below
//! the root (FORMAT 13).

use std::collections::HashMap;
use std::path::{Component, Path};

use sessiond::disk::paths::{
    Encoding, LogPath, project_key, project_key_units, segment_units, session_segment, session_segment_units,
};
use sessiond::log::{Header, Offset, SessionId, header_line, parse_header_line};

/// The texts between bytes 0xFF are ids and working directories, each as UTF-8 and as UTF-16 units.
pub fn paths(bytes: &[u8]) {
    let mut names: HashMap<String, Vec<u16>> = HashMap::new();
    let texts: Vec<&[u8]> = bytes.split(|byte| *byte == 0xFF).take(16).collect();
    for text in &texts {
        let units: Vec<u16> =
            text.chunks(2).map(|pair| u16::from_le_bytes([pair[0], *pair.get(1).unwrap_or(&0)])).collect();
        let text = String::from_utf8_lossy(text);
        for units in [units, text.encode_utf16().collect()] {
            if let Some(name) = id(&units) {
                let other = names.entry(name.clone()).or_insert_with(|| units.clone());
                assert_eq!(*other, units, "two ids have one name: {name}");
            }
            directory(&units);
        }
        // Any text at all as a name that was found.
        if let Some(units) = segment_units(&text) {
            assert_eq!(session_segment_units(units), Ok(text.to_string()));
        }
        for cwd in &texts {
            place(&text, &String::from_utf8_lossy(cwd));
        }
    }
}

/// How one unit stands in a name.
fn escaped(unit: u16) -> String {
    match char::from_u32(u32::from(unit)) {
        Some(char) if char.is_ascii_alphanumeric() || "._-".contains(char) => char.to_string(),
        _ => format!("~{unit:04X}"),
    }
}

fn is_name(name: &str) {
    assert!(!name.is_empty() && name.len() <= 255, "{} bytes", name.len());
    assert!(name != "." && name != "..");
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-~".contains(&byte);
    assert!(name.bytes().all(fits), "{name:?}"); // no '/', no NUL, no space
}

fn id(units: &[u16]) -> Option<String> {
    let wanted: String = match String::from_utf16(units).as_deref() {
        Ok("." | "..") => "~002E".repeat(units.len()),
        _ => units.iter().map(|unit| escaped(*unit)).collect(),
    };
    let fits = !wanted.is_empty() && wanted.len() <= 255;
    let name = session_segment_units(units.iter().copied());
    assert_eq!(name.is_ok(), fits, "{units:?}");
    if let Ok(text) = String::from_utf16(units) {
        assert_eq!(SessionId::new(&text).is_ok(), fits, "{text:?}");
        assert_eq!(session_segment(&text), name);
    }
    let name = name.ok()?;
    assert_eq!(name, wanted);
    is_name(&name);
    assert_eq!(segment_units(&name).as_deref(), Some(units));
    Some(name)
}

fn directory(units: &[u16]) {
    let key = project_key_units(units.iter().copied());
    assert_eq!(key.is_err(), units.is_empty());
    let Ok(key) = key else { return };
    let mut wanted = String::new();
    for (at, unit) in units.iter().enumerate() {
        let separates = |unit: &u16| "/\\:".encode_utf16().any(|separator| separator == *unit);
        match (separates(unit), at.checked_sub(1).is_some_and(|before| separates(&units[before]))) {
            (true, true) => {}
            (true, false) => wanted.push('-'),
            (false, _) => wanted.push_str(&escaped(*unit)),
        }
    }
    let mut wanted = wanted.trim_start_matches('-');
    if wanted.is_empty() {
        wanted = "root";
    }
    assert_eq!(key, format!("--{}--", &wanted[..wanted.len().min(251)]));
    is_name(&key);
    if let Ok(text) = String::from_utf16(units) {
        assert_eq!(project_key(Some(&text)), Ok(key));
    }
}

/// The log of a session lies three names below the root, and its header brings it back there.
fn place(id: &str, cwd: &str) {
    for encoding in [Encoding::Plain, Encoding::Zstd] {
        let Ok(path) = LogPath::new(Some(cwd), id, encoding) else { continue };
        let log = path.log();
        let parts: Vec<Component<'_>> = log.components().collect();
        assert_eq!(parts.len(), 3, "{}", log.display());
        assert!(parts.iter().all(|part| matches!(part, Component::Normal(_))), "{}", log.display());
        for part in &parts {
            is_name(part.as_os_str().to_str().unwrap());
        }
        let root = Path::new("/store");
        assert!(root.join(&log).starts_with(root));
        assert_eq!(log.file_name().and_then(Encoding::of_file_name), Some(encoding));
        assert!(log.starts_with(path.session_dir()) && path.session_dir().starts_with(path.project_dir()));
    }
    let Ok(id) = SessionId::new(id) else { return };
    let header = Header {
        id,
        created_at: 0,
        cwd: Some(cwd.to_owned()),
        parent_session: None,
        is_seeded: false,
        subagent: false,
        delegation_depth: None,
        agent_preset: None,
    };
    let line = header_line(&header, Offset::ZERO);
    assert!(!line.contains(['\n', '\u{85}', '\u{2028}', '\u{2029}']), "{line:?}");
    match parse_header_line(&line) {
        Ok((back, _)) => assert_eq!((&back.id, &back.cwd), (&header.id, &header.cwd)),
        Err(error) => assert!(!cwd.starts_with('/'), "{error}: {line}"),
    }
}
