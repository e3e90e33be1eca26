//! What a client's paths mean on this machine.

/// The path without symlinks, `.` and `..`; none if nothing is there, or it is no Unicode.
pub fn canonical_path(path: &str) -> Option<String> {
    std::fs::canonicalize(path).ok()?.into_os_string().into_string().ok()
}
