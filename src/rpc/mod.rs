//! What the daemon says and hears, apart from how its bytes travel.

pub mod acp;
