//! Questions about permissions: the keys that answer them, and what was answered.

use outlast_client::{PermissionBody, PermissionOption};

/// The answer of a permission that was allowed without choosing an option.
const ALLOWED: &str = "allowed";

/// The option that a line chooses; None if it is a message. Fails with what to do if the line is as short as an answer and none.
pub(super) fn chosen<'a>(body: &'a PermissionBody, line: &str) -> Result<Option<&'a PermissionOption>, String> {
    let word = line.trim().to_lowercase();
    let mut letters = word.chars();
    let key = match (word.as_str(), letters.next(), letters.next()) {
        ("yes", ..) => 'y',
        ("always", ..) => 'a',
        ("no", ..) => 'n',
        ("never", ..) => 'd',
        (_, Some(key), None) => key,
        _ => return Ok(None),
    };
    let keys = choices(body);
    // Each answer has a number, too, in the order in which they are offered.
    let by_number = key.to_digit(10).and_then(|number| body.options.get(usize::try_from(number).ok()?.checked_sub(1)?));
    let by_key = keys.iter().find(|(of, _)| *of == key).map(|(_, option)| *option);
    let option = by_key.or(by_number).ok_or_else(|| format!("answer with {}; to send it as a message, write more", listed(&keys)))?;
    Ok(Some(option))
}

/// Whether a question was answered with yes, and by which user or rule, in brackets.
pub(super) fn verdict(body: &PermissionBody, answer: &str) -> (bool, String) {
    // A permission that a rule allowed without a question has no options.
    let chosen = body.options.iter().find(|option| option.option == answer);
    let is_allowed = chosen.map_or(answer == ALLOWED, |option| option.kind.starts_with("allow"));
    (is_allowed, body.by.as_deref().map(|by| format!(" ({by})")).unwrap_or_default())
}

/// The keys, as in "y, a or n".
fn listed(keys: &[(char, &PermissionOption)]) -> String {
    let keys: Vec<String> = keys.iter().map(|(key, _)| key.to_string()).collect();
    match keys.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, before)) => format!("{} or {last}", before.join(", ")),
        None => "/stop".into(),
    }
}

/// The keys that answer a question: letters for common options, else numbers.
pub(super) fn choices(question: &PermissionBody) -> Vec<(char, &PermissionOption)> {
    let mut keys: Vec<(char, &PermissionOption)> = Vec::new();
    for (n, option) in question.options.iter().enumerate().take(9) {
        let letter = match option.kind.as_str() {
            "allow_once" => Some('y'),
            "allow_always" => Some('a'),
            "reject_once" => Some('n'),
            "reject_always" => Some('d'),
            _ => None,
        };
        let letter = letter.filter(|letter| keys.iter().all(|(key, _)| key != letter));
        let number = char::from_digit(n as u32 + 1, 10).unwrap_or('0');
        keys.push((letter.unwrap_or(number), option));
    }
    keys
}
