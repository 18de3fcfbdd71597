//! A process's card as a store keeps it: a JSON object.

use super::ProcessCard;
use crate::{ids::LeaseNumber, time::UtcTime};
use serde_json::{Map, Value, json};

/// The maximum size of a card, in bytes. The texts of a card are limited, so every card is smaller.
pub const MAX_CARD_BYTES: usize = 64 * 1024;

/// Returns the card as a JSON object.
pub fn encode_card(card: &ProcessCard) -> String {
    let notes: Map<String, Value> = card
        .notes
        .iter()
        .map(|(lease, note)| (lease.get().to_string(), Value::String(note.clone())))
        .collect();
    json!({
        "host": card.host,
        "pid": card.pid,
        "program": card.program,
        "version": card.version,
        "since": card.since.as_millis(),
        "notes": notes,
    })
    .to_string()
}

/// Parses a card as stored: a JSON object, whose unknown fields are ignored. Returns `None` if the data is not a card.
pub fn decode_card(bytes: &[u8]) -> Option<ProcessCard> {
    if bytes.len() > MAX_CARD_BYTES {
        return None;
    }
    let Ok(Value::Object(fields)) = serde_json::from_slice(bytes) else { return None };
    let text = |name: &str| fields.get(name)?.as_str();
    let pid = u32::try_from(fields.get("pid")?.as_u64()?).ok()?;
    let since = UtcTime::from_millis(fields.get("since")?.as_u64()?);
    let mut card = ProcessCard::new(text("host")?, pid, text("program")?, since);
    card.version = text("version").map(str::to_owned);
    if let Some(Value::Object(notes)) = fields.get("notes") {
        let note = |(lease, note): (&String, &Value)| {
            Some((LeaseNumber::new(lease.parse().ok()?), note.as_str()?.to_owned()))
        };
        card.notes = notes.iter().filter_map(note).collect();
    }
    Some(card)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn card_is_read_back() {
        let mut card = ProcessCard::new("host \"7\"", 4711, "shop", UtcTime::from_millis(1_763_640_000_123));
        assert_eq!(decode_card(encode_card(&card).as_bytes()), Some(card.clone()));
        card.version = Some("1.4.2".to_owned());
        card.notes.insert(LeaseNumber::new(u64::MAX), "42 %".to_owned());
        assert_eq!(decode_card(encode_card(&card).as_bytes()), Some(card));
    }

    #[test]
    fn largest_card_is_read_back() {
        let longest = "\u{10ffff}".repeat(ProcessCard::MAX_TEXT_CHARS);
        let mut card = ProcessCard::new(&longest, u32::MAX, &longest, UtcTime::from_millis(u64::MAX / 1000));
        card.version = Some(longest.clone());
        let notes = 0..ProcessCard::MAX_NOTES as u64;
        card.notes = notes.map(|number| (LeaseNumber::new(u64::MAX - number), longest.clone())).collect();
        let written = encode_card(&card);
        assert!(written.len() > MAX_CARD_BYTES * 3 / 4, "the limit is reasonably tight: {}", written.len());
        assert_eq!(decode_card(written.as_bytes()), Some(card));
    }

    #[test]
    fn unknown_fields_are_ignored() {
        let card =
            decode_card(br#"{"host":"h","pid":1,"program":"p","since":5,"version":7,"notes":[],"new":{}}"#);
        assert_eq!(card, Some(ProcessCard::new("h", 1, "p", UtcTime::from_millis(5))));
        let notes = br#"{"host":"h","pid":1,"program":"p","since":5,"notes":{"x":"a","1":2,"3":"b"}}"#;
        let notes = decode_card(notes).unwrap().notes;
        assert_eq!(notes.into_iter().collect::<Vec<_>>(), [(LeaseNumber::new(3), "b".to_owned())]);
    }

    #[test]
    fn other_data_is_not_a_card() {
        let deep = "[".repeat(MAX_CARD_BYTES);
        let long = format!(r#"{{"host":"{}","pid":1,"program":"p","since":5}}"#, "h".repeat(MAX_CARD_BYTES));
        for other in [
            "",
            "null",
            "42 %",
            "{",
            r#"{"host":"h","pid":-1,"program":"p","since":5}"#,
            r#"{"host":"h","pid":4294967296,"program":"p","since":5}"#,
            r#"{"host":["h"],"pid":1,"program":"p","since":5}"#,
            r#"{"host":"h","pid":1,"program":"p","since":1e300}"#,
            &deep,
            &long,
        ] {
            assert_eq!(decode_card(other.as_bytes()), None, "{}", &other[..other.len().min(60)]);
        }
        assert_eq!(decode_card(b"\xff\xfe{}"), None);
    }
}
