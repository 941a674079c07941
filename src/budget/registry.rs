//! One budget for each physical card of this process, whatever API sees it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::Budget;

static CARDS: Mutex<BTreeMap<String, Budget>> = Mutex::new(BTreeMap::new());

impl Budget {
    /// The budget of the card `id`: its PCI bus id (`0000:3b:00.0`) if the API tells it, else its UUID. Who
    /// comes first sets the capacity, and the budget lives as long as the process; everyone later shares it,
    /// whatever capacity they name.
    pub fn of_card(id: &str, capacity: u64) -> Self {
        let mut cards = CARDS.lock().unwrap_or_else(PoisonError::into_inner);
        cards.entry(canonical(id)).or_insert_with(|| Self::new(capacity)).clone()
    }
}

/// One spelling for what APIs spell in several ways: case, `GPU-` before a UUID, eight digits of PCI
/// domain where others have four, and no domain at all.
pub(super) fn canonical(id: &str) -> String {
    let id = id.trim().to_ascii_lowercase();
    let id = id.strip_prefix("gpu-").unwrap_or(&id);
    let (domain, rest) = match id.split(':').collect::<Vec<_>>()[..] {
        [domain, bus, device] => (domain, format!("{bus}:{device}")),
        [bus, device] => ("", format!("{bus}:{device}")),
        _ => return id.to_owned(),
    };
    format!("{:0>4}:{rest}", domain.trim_start_matches('0'))
}
