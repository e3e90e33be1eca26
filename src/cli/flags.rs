//! Flags with a range.

/// Reads a whole number within a range.
///
/// # Errors
/// What is expected; clap adds the flag and what came.
pub fn between<T: TryFrom<u64>, const MIN: u64, const MAX: u64>(text: &str) -> Result<T, String> {
    let value = text.parse().ok().filter(|value| (MIN..=MAX).contains(value));
    let value = value.and_then(|value| T::try_from(value).ok());
    value.ok_or_else(|| format!("expected a whole number from {MIN} to {MAX}"))
}
